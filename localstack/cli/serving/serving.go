// Package serving has the commands that run, inspect and repair servers on this
// machine.
package serving

import (
	"errors"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/embedded/server"
	"millrace/localstack/embedded/store"
	"millrace/localstack/proc"
)

// defaultData is the default data directory.
const defaultData = ".millrace"

// Commands returns the commands of this package for a binary with a version.
func Commands(version string) []*cobra.Command {
	commands := []*cobra.Command{
		serveCommand(version), devCommand(version), backupCommand(), dumpCommand(), repairCommand(), suspendCommand(), restoreCommand(), rotateKeysCommand(version), backfillsCommand(), demoCommand(), cloudCommand(),
	}
	for _, c := range commands {
		reportInUse(c)
	}
	return commands
}

// reportInUse makes a command and its subcommands exit with [command.InUse] if another
// process uses the data directory.
func reportInUse(c *cobra.Command) {
	for _, sub := range c.Commands() {
		reportInUse(sub)
	}
	run := c.RunE
	if run == nil {
		return
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		err := run(c, args)
		if errors.Is(err, server.ErrInUse) || errors.Is(err, store.ErrInUse) || errors.Is(err, proc.ErrRunning) {
			return &command.Error{Code: command.InUse, Err: err}
		}
		return err
	}
}
