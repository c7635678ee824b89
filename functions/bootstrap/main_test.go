package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"millrace/localstack/emulators"
)

// binary is the bootstrap as it is deployed, but built for this machine, once.
var binary string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "millrace-bootstrap-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		defer emulators.StopAll()
		binary = filepath.Join(dir, "bootstrap")
		if out, err := build(binary, nil); err != nil {
			fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// build builds the bootstrap with the flags of a deployment, except those that
// would require recompiling everything.
func build(to string, flags []string, env ...string) ([]byte, error) {
	args := append([]string{"build", "-tags", "lambda.norpc", "-ldflags", "-s -w", "-o", to}, flags...)
	cmd := exec.Command("go", append(args, "millrace/functions/bootstrap")...)
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	return cmd.CombinedOutput()
}
