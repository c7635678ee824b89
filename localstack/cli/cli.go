// Package cli is the command line of the binary: a package for each group of
// commands, put together here.
package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/account"
	"millrace/localstack/cli/audit"
	"millrace/localstack/cli/command"
	"millrace/localstack/cli/environments"
	"millrace/localstack/cli/flows"
	"millrace/localstack/cli/general"
	"millrace/localstack/cli/keys"
	"millrace/localstack/cli/runs"
	"millrace/localstack/cli/secrets"
	"millrace/localstack/cli/session"
	"millrace/localstack/cli/workspace"
)

// Main runs the command line of this process and returns its exit code. version is
// that of a release, "" for the commit that the binary was built of.
func Main(version string) int {
	err := become(os.Args[1:])
	if err == nil {
		err = Command(serviceVersion(version)).ExecuteContext(interruptible())
	}
	if err != nil && explain(err) != "" {
		fmt.Fprintln(os.Stderr, "millrace:", explain(err))
	}
	return code(err)
}

// interruptible returns a context that the first signal to end ends; the second one
// ends the process.
func interruptible() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(command.Interrupted)
	}()
	return ctx
}

// Command returns the whole command line, of a binary with a version.
func Command(version string) *cobra.Command {
	c := &cobra.Command{
		Use:           "millrace",
		Short:         "Run workflows: the client of any deployment, and a server for this machine",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return command.Usagef("%w (see %s --help)", err, c.CommandPath())
	})
	s := &session.Session{}
	command.Group(c, versionCommand(version))
	for _, group := range [][]*cobra.Command{
		runs.Commands(s), flows.Commands(s), secrets.Commands(s), environments.Commands(s), keys.Commands(s),
		workspace.Commands(s), audit.Commands(s), account.Commands(s), general.Commands(s, version),
	} {
		c.AddCommand(s.Commands(group...)...)
	}
	c.AddCommand(servingCommands(version)...)
	return c
}
