// Package cli assembles the binary's command line from the packages below it, one
// for each group of commands.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/account"
	"millrace/localstack/cli/audit"
	"millrace/localstack/cli/backfills"
	"millrace/localstack/cli/command"
	"millrace/localstack/cli/environments"
	"millrace/localstack/cli/exceptions"
	"millrace/localstack/cli/flows"
	"millrace/localstack/cli/general"
	"millrace/localstack/cli/keys"
	"millrace/localstack/cli/notifications"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/runs"
	"millrace/localstack/cli/schedules"
	"millrace/localstack/cli/secrets"
	"millrace/localstack/cli/sensors"
	"millrace/localstack/cli/session"
	"millrace/localstack/cli/workspace"
)

// Main runs the command line of this process and returns the exit code. version is
// the release, "" for the commit that the binary was built from.
func Main(version string) int {
	err := become(os.Args[1:])
	if err != nil {
		return told(output.Guard(os.Stderr), err)
	}
	return execute(interruptible(), Command(serviceVersion(version)), os.Args[1:], os.Stdout, os.Stderr)
}

// execute runs a command line and returns the exit code.
func execute(ctx context.Context, c *cobra.Command, args []string, stdout, stderr *os.File) int {
	screen := output.Guard(stderr)
	c.SetArgs(args)
	c.SetOut(output.Guard(stdout))
	c.SetErr(screen)
	return told(screen, c.ExecuteContext(ctx))
}

// told prints an error unless it is printed already, and returns its exit code.
func told(out io.Writer, err error) int {
	if err != nil && explain(err) != "" {
		fmt.Fprintln(out, "millrace:", explain(err))
	}
	return code(err)
}

// interruptible returns a context that the first interrupt cancels; the second one
// terminates the process.
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

// Command returns the root command of a binary with a version.
func Command(version string) *cobra.Command {
	c := &cobra.Command{
		Use:           "millrace",
		Short:         "Run workflows: a client for any deployment, and a server for this machine",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return command.Usagef("%w (see %s --help)", err, c.CommandPath())
	})
	s := &session.Session{}
	command.Group(c, versionCommand(version))
	for _, group := range [][]*cobra.Command{
		runs.Commands(s), backfills.Commands(s), flows.Commands(s), schedules.Commands(s), secrets.Commands(s), environments.Commands(s), sensors.Commands(s),
		notifications.Commands(s), keys.Commands(s), workspace.Commands(s), audit.Commands(s), exceptions.Commands(s), account.Commands(s),
		general.Commands(s, version),
	} {
		c.AddCommand(s.Commands(group...)...)
	}
	c.AddCommand(servingCommands(version)...)
	return c
}
