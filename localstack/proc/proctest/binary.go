// Package proctest helps tests that run programs: it builds this module's own
// ([Main]), and runs the test binary as another program ([Start]).
package proctest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The commands of this module for users.
const (
	Local     = "millrace/localstack" // millrace
	Bootstrap = "millrace/functions/bootstrap"
)

// Main implements a TestMain: it builds commands, stores their paths, runs the
// tests and removes the commands. It returns the exit code. go test caches
// results until an import changes, so import what the commands are built from.
func Main(m *testing.M, commands map[string]*string) int {
	dir, err := os.MkdirTemp("", "millrace-binaries-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	for command, path := range commands {
		*path = filepath.Join(dir, filepath.Base(command))
		if err := Build(*path, command); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// Build builds a command of this module to a file, stripped like a deployed
// one, with further flags of go build.
func Build(file, command string, flags ...string) error {
	args := append([]string{"build", "-tags", "lambda.norpc", "-ldflags", "-s -w", "-o", file}, flags...)
	cmd := exec.Command("go", append(args, command)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", command, err, out)
	}
	return nil
}
