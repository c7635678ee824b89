package fleet

import (
	_ "embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
)

// runtimePy plays the part of AWS's Python runtime: it calls the handler.
//
//go:embed runtime.py
var runtimePy string

// Python returns the command that runs a handler in Python, as Lambda's runtime
// for it does, and what lays out its code. interpreter is a name on the PATH or a
// path; a shim is resolved.
func Python(interpreter string, code fs.FS) (command []string, layout func(dir string) error, err error) {
	out, err := exec.Command(interpreter, "-I", "-S", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		return nil, nil, fmt.Errorf("fleet: the sandbox functions need Python, 3.10 or newer: %s: %w", interpreter, err)
	}
	return []string{strings.TrimSpace(string(out)), "-c", runtimePy}, func(dir string) error { return os.CopyFS(dir, code) }, nil
}
