package proc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"millrace/localstack/filelock"
)

// Files in the directory of a background program.
const (
	pidFile = "pid" // locked by the program while it lives
	logFile = "log" // its output
)

// ErrRunning means that a program is running in the directory.
var ErrRunning = errors.New("it is up already")

// Take locks a directory for this process and creates it if missing. Errors:
// ErrRunning.
func Take(dir string) (*filelock.Lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := filelock.Try(filepath.Join(dir, pidFile))
	if errors.Is(err, filelock.ErrLocked) {
		return nil, fmt.Errorf("%w in %s", ErrRunning, dir)
	}
	return lock, err
}

// Spawn runs a command in the background, in its own session, and returns the
// message of its [Ready]. Its output goes to the file log in dir. Errors: a
// command that ends before, with its output; ctx's, in which case the command
// is terminated.
func Spawn(ctx context.Context, dir, program string, args ...string) (message string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	log, err := os.Create(filepath.Join(dir, logFile))
	if err != nil {
		return "", err
	}
	defer log.Close()
	c := &Child{cmd: exec.Command(program, args...), output: func() string {
		data, _ := os.ReadFile(log.Name()) // the message lacks it if it cannot be read
		return string(data)
	}}
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.SysProcAttr = daemonAttributes()
	notice := Notice(filepath.Join(dir, "notice-"+rand.Text()))
	defer os.Remove(string(notice))
	notice.Ask(c.cmd)
	if err := c.start(nil); err != nil {
		return "", err
	}
	err = c.await(ctx, notice.into(&message), func() {
		_ = terminateDaemon(c.cmd.Process) // it may have ended
		<-c.exited
	})
	return message, err
}

// Stop terminates the program of a directory, which on Windows kills it, and
// waits for its end. After patience it is killed. It returns false if there was
// none.
func Stop(ctx context.Context, dir string, patience time.Duration) (bool, error) {
	path := filepath.Join(dir, pidFile)
	held, pid, err := filelock.Holder(path)
	if err != nil || !held {
		return false, err
	}
	if pid < 2 {
		return false, fmt.Errorf("%s holds no number of a process", path)
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return true, err
	}
	defer func() { _ = process.Release() }()
	end := func(err error) error {
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("end process %d: %w", pid, err)
		}
		return nil
	}
	if err := end(terminateDaemon(process)); err != nil {
		return true, err
	}
	kill := time.After(patience)
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		if held, _, err := filelock.Holder(path); err != nil || !held {
			return true, err
		}
		select {
		case <-tick.C:
		case <-kill:
			if err := end(process.Kill()); err != nil {
				return true, err
			}
		case <-ctx.Done():
			return true, context.Cause(ctx)
		}
	}
}
