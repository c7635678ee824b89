// Package command is what the commands of the binary have in common: how a wrong
// command line is told, and the exit codes.
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
	Failure     = 1   // the run FAILED, the request was refused, anything else that went wrong
	WrongUsage  = 2   // a wrong command line
	TimedOut    = 3   // the run TIMED_OUT
	Cancelled   = 4   // the run was CANCELLED
	NotAllowed  = 5   // not signed in, or not allowed
	NotFound    = 6   // what was named is not there
	Interrupted = 130 // by a signal; a run that is watched goes on

	// InUse is serve's and cloud up's: another process has the data directory.
	InUse = 3
)

// Error ends the program with an exit code. An Err of nil is told nowhere: what
// there is to say was said.
type Error struct {
	Code int
	Err  error
}

// Error is the message for the user.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Exit ends the program with a code and without a message.
func Exit(code int) error {
	if code == Done {
		return nil
	}
	return &Error{Code: code}
}

// Usage makes of an error one of the command line.
func Usage(err error) error { return &Error{WrongUsage, err} }

// Usagef is a formatted error of the command line.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// Code is the exit code that an error asks for.
func Code(err error) int {
	if err == nil {
		return Done
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Failure
}

// Args makes of what refuses arguments an error of the command line.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return Usagef("%w (see %s --help)", err, c.CommandPath())
		}
		return nil
	}
}

// NoArgs takes no argument.
var NoArgs = Args(cobra.NoArgs)

// Exactly takes n arguments.
func Exactly(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		return Usagef("usage: %s (arguments given: %d)", c.UseLine(), len(args))
	}
}

// Group makes of a command one that has only others below it: alone it shows its help.
func Group(c *cobra.Command, below ...*cobra.Command) *cobra.Command {
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return Usagef("unknown command %q (see %s --help)", args[0], c.CommandPath())
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.AddCommand(below...)
	return c
}

// Program is the file that the user started, by which this process starts itself and
// finds what lies beside it.
func Program() (string, error) {
	if filepath.IsAbs(os.Args[0]) { // set by the binary that carries this program
		return os.Args[0], nil
	}
	return os.Executable()
}
