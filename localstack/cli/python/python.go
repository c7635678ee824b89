// Package python starts the user's Python interpreter with the embedded package
// millrace.
package python

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"millrace/functions/sandbox"
)

// Interpreter is the default Python interpreter on this machine.
const Interpreter = "python3"

// Library is a temporary folder that contains the package millrace.
type Library struct {
	Dir         string
	interpreter string
}

// NewLibrary writes the package to a new folder, which the caller removes. interpreter
// is the Python to start with it, "" for the one on PATH.
func NewLibrary(interpreter string) (*Library, error) {
	if interpreter == "" {
		interpreter = Interpreter
	}
	dir, err := os.MkdirTemp("", "millrace-python-")
	if err != nil {
		return nil, err
	}
	l := &Library{Dir: dir, interpreter: interpreter}
	if err := os.CopyFS(dir, sandbox.Python()); err != nil {
		_ = l.Remove() // the error of the copy matters more
		return nil, err
	}
	return l, nil
}

// Remove removes the folder.
func (l *Library) Remove() error { return os.RemoveAll(l.Dir) }

// Command returns a command that runs Python with arguments until ctx ends.
func (l *Library) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, l.interpreter, args...) //nolint:gosec // the user's own interpreter
	// Python would write bytecode next to the user's files.
	cmd.Env = append(os.Environ(), "PYTHONPATH="+l.Dir, "PYTHONDONTWRITEBYTECODE=1")
	return cmd
}

// Missing adds advice to an error of starting Python.
func (l *Library) Missing(err error) error {
	return fmt.Errorf("this takes Python 3.10 or newer, and %s did not start: %w", l.interpreter, err)
}
