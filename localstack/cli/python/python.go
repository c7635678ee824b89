// Package python starts the user's Python with the package millrace that the binary
// carries.
package python

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"millrace/functions/sandbox"
)

// Interpreter is the Python that runs on this machine where none is named.
const Interpreter = "python3"

// Library is a temporary folder with the package millrace.
type Library struct {
	Dir         string
	interpreter string
}

// NewLibrary writes the package. interpreter is the Python to start with it, "" for
// that of PATH. The caller removes it.
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
		_ = l.Remove() // the error of the copy is the one to tell
		return nil, err
	}
	return l, nil
}

// Remove removes the folder.
func (l *Library) Remove() error { return os.RemoveAll(l.Dir) }

// Command is Python with arguments; its process ends with ctx.
func (l *Library) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, l.interpreter, args...) //nolint:gosec // the user's own interpreter
	// Bytecode of the user's files would be new in their folder each time.
	cmd.Env = append(os.Environ(), "PYTHONPATH="+l.Dir, "PYTHONDONTWRITEBYTECODE=1")
	return cmd
}

// Missing says of an error of the start what to do about it.
func (l *Library) Missing(err error) error {
	return fmt.Errorf("this takes Python 3.10 or newer, and %s did not start: %w", l.interpreter, err)
}
