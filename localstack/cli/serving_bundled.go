//go:build bundle

package cli

import (
	"github.com/spf13/cobra"

	"millrace/localstack/cli/bundle"
	"millrace/localstack/cli/command"
)

// servingCommands returns placeholders of the commands that need the server's
// libraries, for help and completion: [become] starts the program that implements
// them.
func servingCommands(string) []*cobra.Command {
	var commands []*cobra.Command
	for _, known := range bundle.Commands {
		commands = append(commands, &cobra.Command{
			Use: known.Name, Short: known.Short, Args: command.Args(cobra.ArbitraryArgs),
			RunE: func(*cobra.Command, []string) error { return bundle.Carried().Run() },
		})
	}
	return commands
}

// become replaces this process with the full program if the command needs it. It
// returns nil if it does not, and an error if that fails.
func become(args []string) error {
	if !bundle.Needs(args) {
		return nil
	}
	return bundle.Carried().Run()
}
