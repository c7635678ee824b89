// Package command has what all commands of the binary use: exit codes, and errors of
// the command line.
package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// The exit codes of the binary.
const (
	Done        = 0   // done, or the run SUCCEEDED
	Failure     = 1   // the run FAILED, the request was rejected, or any other error
	WrongUsage  = 2   // a wrong command line
	TimedOut    = 3   // the run TIMED_OUT
	Cancelled   = 4   // the run was CANCELLED
	NotAllowed  = 5   // not signed in, or not allowed
	NotFound    = 6   // a named thing does not exist
	Interrupted = 130 // by a signal; a watched run continues

	// InUse is of serve and cloud up: another process uses the data directory.
	InUse = 3
)

// Error makes the program exit with a code. If Err is nil, nothing is printed: the
// command has printed everything.
type Error struct {
	Code int
	Err  error
}

// Error returns the message for the user.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Exit returns an error that makes the program exit with a code and no message; nil
// for [Done].
func Exit(code int) error {
	if code == Done {
		return nil
	}
	return &Error{Code: code}
}

// Usage wraps an error of the command line: the exit code is [WrongUsage].
func Usage(err error) error { return &Error{WrongUsage, err} }

// Usagef returns a formatted error of the command line.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// Code returns the exit code for an error: [Failure] unless it is an [Error].
func Code(err error) int {
	if err == nil {
		return Done
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Failure
}

// Args returns a check whose errors are errors of the command line.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return Usagef("%w (see %s --help)", err, c.CommandPath())
		}
		return nil
	}
}

// NoArgs accepts no arguments.
var NoArgs = Args(cobra.NoArgs)

// Exactly accepts n arguments.
func Exactly(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		return Usagef("usage: %s (arguments given: %d)", c.UseLine(), len(args))
	}
}

// Group adds subcommands to a command that does nothing itself: without one it prints
// its help.
func Group(c *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return Usagef("unknown command %q (see %s --help)", args[0], c.CommandPath())
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.AddCommand(subcommands...)
	return c
}

// Program returns the executable that the user started. This process uses it to start
// itself again and to find files next to it.
func Program() (string, error) {
	if filepath.IsAbs(os.Args[0]) { // set by the binary that embeds this program
		return os.Args[0], nil
	}
	return os.Executable()
}
