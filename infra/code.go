package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"millrace/functions/sandbox"
)

// code is the functions' code, as folders that become zip files.
type code struct {
	bootstrap string // the program of all functions of the catalog
	sandbox   string // the Python tree of the sandbox functions
	root      string // parent of both
}

// buildCode builds the bootstrap for Lambda's arm64 machines, reproducibly, and
// lays out the Python tree. It must run in the module. Call remove to delete
// the folders.
func buildCode(ctx context.Context) (code, error) {
	root, err := os.MkdirTemp("", "millrace-code-")
	if err != nil {
		return code{}, err
	}
	c := code{bootstrap: filepath.Join(root, "bootstrap"), sandbox: filepath.Join(root, "sandbox"), root: root}
	// The version is an environment variable, so that it does not change the code.
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags", "lambda.norpc",
		"-ldflags", "-s -w -buildid=", "-o", filepath.Join(c.bootstrap, "bootstrap"), "millrace/functions/bootstrap")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		c.remove()
		return code{}, fmt.Errorf("build the bootstrap: %w", err)
	}
	if err := os.CopyFS(c.sandbox, sandbox.Python()); err != nil {
		c.remove()
		return code{}, fmt.Errorf("lay out the sandbox's code: %w", err)
	}
	return c, nil
}

// remove deletes the folders; assets staged from them remain.
func (c code) remove() { _ = os.RemoveAll(c.root) } // a temporary folder
