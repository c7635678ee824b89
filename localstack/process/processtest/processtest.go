// Package processtest builds millrace-local for tests that run it as users do.
package processtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"millrace/localstack/demo"
	"millrace/localstack/embedded/server"
)

// What the binary is made of: go test keeps results until an import changes,
// and would not know that the binary did.
var (
	_ = server.Open
	_ = demo.Run
)

// Main is a TestMain's: it builds the binary, notes its path, runs the tests and
// removes it. It returns the exit code.
func Main(m *testing.M, binary *string) int {
	dir, err := os.MkdirTemp("", "millrace-binary-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	*binary = filepath.Join(dir, "millrace-local")
	if err := Build(*binary, "millrace/localstack"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Build builds a command of this module to a file.
func Build(file, command string) error {
	if out, err := exec.Command("go", "build", "-o", file, command).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", command, err, out)
	}
	return nil
}
