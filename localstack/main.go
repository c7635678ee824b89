// Command millrace-local runs the whole service in one process on one machine:
// the API, the workers, the scheduler and the object store on one data
// directory, without a cloud account.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"millrace/localstack/embedded/server"
	"millrace/localstack/proc"
)

// Exit codes besides 0.
const (
	exitFailure = 1
	exitUsage   = 2
	exitInUse   = 3 // another process serves the data directory

	exitInterrupted = 130 // by the second signal
)

// version is set in releases (-ldflags "-X main.version=…").
var version = ""

func main() {
	ctx := interruptible()
	err := command().ExecuteContext(ctx)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "millrace-local:", err)
	var wrong usageError
	switch {
	case errors.As(err, &wrong):
		os.Exit(exitUsage)
	case errors.Is(err, server.ErrInUse), errors.Is(err, proc.ErrRunning):
		os.Exit(exitInUse)
	}
	os.Exit(exitFailure)
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
		os.Exit(exitInterrupted)
	}()
	return ctx
}

// usageError is a command line that cannot be understood.
type usageError struct{ error }

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "millrace-local",
		Short:         "Millrace on one machine",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w (see %s --help)", err, c.CommandPath())}
	})
	root.AddCommand(serveCommand(), backupCommand(), dumpCommand(), repairCommand(), suspendCommand(), restoreCommand(),
		demoCommand(), cloudCommand(), versionCommand())
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), serviceVersion())
			return err
		},
	}
}

// serviceVersion returns the release version, or else the commit of the build.
func serviceVersion() string {
	if version != "" {
		return version
	}
	commit, dirty := "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision" && len(s.Value) >= 12:
				commit = s.Value[:12]
			case s.Key == "vcs.modified" && s.Value == "true":
				dirty = "-dirty"
			}
		}
	}
	if commit == "" {
		return "dev"
	}
	return "dev-" + commit + dirty
}
