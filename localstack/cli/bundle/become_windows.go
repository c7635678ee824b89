package bundle

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
)

// become runs a program with the arguments of this process and exits with its exit
// code. An interrupt reaches both; the program handles it.
func become(file string) error {
	signal.Ignore(os.Interrupt)
	cmd := exec.Command(file, os.Args[1:]...) //nolint:gosec,noctx // what this binary carries
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(ended.ExitCode())
	}
	if err != nil {
		return err
	}
	os.Exit(0)
	return nil
}

// private accepts any folder: a user's cache folder is writable only by the user.
func private(string) error { return nil }
