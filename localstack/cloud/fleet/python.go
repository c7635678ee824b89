package fleet

import (
	_ "embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
)

// runtimePy emulates AWS's Python runtime: it calls the handler.
//
//go:embed runtime.py
var runtimePy string

// Python returns the command that runs a Python handler, like Lambda's runtime,
// and a function that lays out its code. interpreter is a path or a name on
// PATH; shims are resolved.
func Python(interpreter string, code fs.FS) (command []string, layout func(dir string) error, err error) {
	out, err := exec.Command(interpreter, "-I", "-S", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		return nil, nil, fmt.Errorf("fleet: the sandbox functions need Python, 3.10 or newer: %s: %w", interpreter, err)
	}
	return []string{strings.TrimSpace(string(out)), "-c", runtimePy}, func(dir string) error { return os.CopyFS(dir, code) }, nil
}
