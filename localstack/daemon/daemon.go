// Package daemon keeps a program in the background: one to a directory, whose
// start is waited for, and which can be told to end.
package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The files of a directory.
const (
	pidFile = "pid" // locked by the program as long as it lives
	logFile = "log" // what it writes
)

// readyFile is the descriptor on which a program says that it is up.
const readyFile = 3

// poll is how often it is looked whether a program has ended.
const poll = 20 * time.Millisecond

// ErrRunning: a program runs in the directory already.
var ErrRunning = errors.New("it is up already")

// errEnded: a program ended, and well, without having said that it is up.
var errEnded = errors.New("it ended before it was up")

// Lock is a program's hold of its directory.
type Lock struct{ file *os.File }

// Take takes the directory, which is made if missing, for this process. Errors:
// ErrRunning.
func Take(dir string) (*Lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, pidFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close() // nothing was written
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w in %s", ErrRunning, dir)
		}
		return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	if err := errors.Join(file.Truncate(0), write(file, strconv.Itoa(os.Getpid())+"\n")); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Lock{file}, nil
}

func write(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

// Release gives the directory back.
func (l *Lock) Release() error {
	return errors.Join(l.file.Truncate(0), l.file.Close())
}

// Notice is where a program says that it is up, once, and closes it: the caller
// of [Spawn] if there is one, else stdout. A program that was spawned asks for it
// before it starts others.
func Notice(spawned bool, stdout io.Writer) io.WriteCloser {
	if !spawned {
		return open{stdout}
	}
	syscall.CloseOnExec(readyFile) // the caller waits until nobody holds it
	return os.NewFile(readyFile, "ready")
}

// open is a writer that stays so.
type open struct{ io.Writer }

// Close does nothing.
func (open) Close() error { return nil }

// Spawn runs a command in the background, in a session of its own, and returns what
// it gives its [Notice]. What it writes goes to the file log of dir. Errors:
// that of a command that ends before, with what it wrote; ctx's, when the command
// is told to end.
func Spawn(ctx context.Context, dir, program string, args ...string) (message string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(dir, logFile)
	log, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer log.Close()
	in, out, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer in.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{out}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := errors.Join(cmd.Start(), out.Close()); err != nil {
		return "", err
	}
	said := make(chan []byte, 1)
	go func() {
		data, _ := io.ReadAll(in) // nothing is what a dead program says
		said <- data
	}()
	select {
	case data := <-said:
		if len(data) > 0 {
			return string(data), cmd.Process.Release()
		}
	case <-ctx.Done():
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	}
	if err = errors.Join(context.Cause(ctx), cmd.Wait()); err == nil {
		err = errEnded
	}
	if text, readErr := os.ReadFile(path); readErr == nil {
		err = fmt.Errorf("%w; it wrote:\n%s", err, bytes.TrimSpace(text))
	}
	return "", err
}

// Stop tells the program of a directory to end and waits until it has, at most
// for patience: then it is killed. false means that there was none.
func Stop(ctx context.Context, dir string, patience time.Duration) (bool, error) {
	// The lock first: what stands in the file is its holder's only then.
	free, err := unlocked(dir)
	if err != nil || free {
		return false, err
	}
	data, err := os.ReadFile(filepath.Join(dir, pidFile))
	if err != nil {
		return false, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid < 2 {
		return false, fmt.Errorf("%s holds no number of a process", filepath.Join(dir, pidFile))
	}
	signal := func(s syscall.Signal) error {
		if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end process %d: %w", pid, err)
		}
		return nil
	}
	if err := signal(syscall.SIGTERM); err != nil {
		return true, err
	}
	killed := time.After(patience)
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		if free, err := unlocked(dir); err != nil || free {
			return true, err
		}
		select {
		case <-tick.C:
		case <-killed:
			if err := signal(syscall.SIGKILL); err != nil {
				return true, err
			}
		case <-ctx.Done():
			return true, context.Cause(ctx)
		}
	}
}

// unlocked reports whether no program holds the directory.
func unlocked(dir string) (bool, error) {
	file, err := os.Open(filepath.Join(dir, pidFile))
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
