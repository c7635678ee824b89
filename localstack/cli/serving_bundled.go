//go:build bundle

package cli

import (
	"github.com/spf13/cobra"

	"millrace/localstack/cli/bundle"
	"millrace/localstack/cli/command"
)

// servingCommands are those that need the libraries of the server, for the list of all
// commands: [become] starts the program that has them.
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

// become starts the whole program in place of this process if the arguments are for
// it. It returns only if they are not, or with an error.
func become(args []string) error {
	if !bundle.Needs(args) {
		return nil
	}
	return bundle.Carried().Run()
}
