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

// Environment variables of a test binary in a role.
const (
	roleVariable     = "MILLRACE_TEST_ROLE"
	argumentVariable = "MILLRACE_TEST_ARGUMENT"
)

// readyPatience is how long a child may take to be ready.
const readyPatience = time.Minute

// Play must be called first by a TestMain whose tests call [Start]. In a child
// it plays the role and ends the process, with code 1 if the role fails;
// otherwise it does nothing.
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

// Start runs the test binary in a role of [Play], at most until the test ends.
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

// Program returns a program that plays a role in the test binary, with its
// arguments in os.Args[1:]. It exists until the test ends.
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

// Environment returns this process's environment without the variables of a
// role.
func Environment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, roleVariable+"=") || strings.HasPrefix(variable, argumentVariable+"=")
	})
}

// Await returns the message of [proc.Ready] when the child has called it. If it
// does not, the child is killed, and the error contains its output.
func (c *Child) Await(ctx context.Context) (message string, err error) {
	return c.AwaitNotice(ctx, readyPatience, c.notice)
}
