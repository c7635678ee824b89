package proctest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/localstack/proc"
)

// The environment of a test binary that plays a role.
const (
	roleVariable     = "MILLRACE_TEST_ROLE"
	argumentVariable = "MILLRACE_TEST_ARGUMENT"
)

// readyPatience is how long a child may take to be ready.
const readyPatience = time.Minute

// Play is called first by a TestMain whose tests call [Start]: in a child it plays
// the role and ends the process, with code 1 if that fails. Else it does nothing.
func Play(roles map[string]func(argument string) error) {
	name, child := os.LookupEnv(roleVariable)
	if !child {
		return
	}
	role, known := roles[name]
	if !known {
		role = func(string) error { return fmt.Errorf("no role %q", name) }
	}
	if err := role(os.Getenv(argumentVariable)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Child is the test binary in a role.
type Child struct {
	*proc.Child
	notice proc.Notice
}

// Start runs the test binary in a role of [Play], until the test ends at most.
func Start(t testing.TB, role, argument string) *Child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVariable+"="+role, argumentVariable+"="+argument)
	c := &Child{notice: proc.Notice(filepath.Join(t.TempDir(), "notice"))}
	c.notice.Ask(cmd)
	if c.Child, err = proc.Start(cmd, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	return c
}

// Program is a program that plays a role in the test binary with the arguments that
// it is given, os.Args[1:] there. It lasts as long as the test.
func Program(t testing.TB, role, argument string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), role)
	script := fmt.Sprintf("#!/bin/sh\n%s='%s' %s='%s' exec '%s' \"$@\"\n", roleVariable, role, argumentVariable, argument, self)
	if err := os.WriteFile(file, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

// Environment is this process's without what makes it play a role.
func Environment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, roleVariable+"=") || strings.HasPrefix(variable, argumentVariable+"=")
	})
}

// Await returns the message of [proc.Ready] when the child has called it. A child
// that does not is gone afterwards, and the error holds what it wrote.
func (c *Child) Await(ctx context.Context) (message string, err error) {
	return c.AwaitNotice(ctx, readyPatience, c.notice)
}
