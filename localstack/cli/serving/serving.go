// Package serving has the commands that run, show and mend servers on this machine.
package serving

import (
	"errors"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/embedded/server"
	"millrace/localstack/proc"
)

// defaultData is the data directory of a server that is told of none.
const defaultData = ".millrace"

// Commands are all of them. version is that of the binary.
func Commands(version string) []*cobra.Command {
	commands := []*cobra.Command{
		serveCommand(version), devCommand(version), backupCommand(), dumpCommand(), repairCommand(), suspendCommand(), restoreCommand(), demoCommand(), cloudCommand(),
	}
	for _, c := range commands {
		tellInUse(c)
	}
	return commands
}

// tellInUse gives the exit code of its own to a data directory that another process has.
func tellInUse(c *cobra.Command) {
	for _, below := range c.Commands() {
		tellInUse(below)
	}
	run := c.RunE
	if run == nil {
		return
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		err := run(c, args)
		if errors.Is(err, server.ErrInUse) || errors.Is(err, proc.ErrRunning) {
			return &command.Error{Code: command.InUse, Err: err}
		}
		return err
	}
}
