package proc

import (
	"errors"
	"fmt"
	"os"
)

// ErrLocked means that another process holds a lock.
var ErrLocked = errors.New("locked by another process")

// Lock is an exclusive lock on a file, which holds the number of the process
// that has it. The kernel gives the lock up when that process ends.
type Lock struct{ file *os.File }

// TryLock locks a file, which is made if missing. Errors: ErrLocked.
func TryLock(path string) (*Lock, error) { return openLock(path, exclusive) }

// WaitLock locks a file, which is made if missing, once nobody else does.
func WaitLock(path string) (*Lock, error) { return openLock(path, exclusive|wait) }

func openLock(path string, how lockFlags) (*Lock, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(file, how); err != nil {
		_ = file.Close() // nothing was written
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	err = file.Truncate(0)
	if err == nil {
		_, err = fmt.Fprintln(file, os.Getpid())
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Lock{file}, nil
}

// Unlock gives the lock up at once, also while a program that is being started
// still has the file open.
func (l *Lock) Unlock() error {
	return errors.Join(l.file.Truncate(0), unlockFile(l.file), l.file.Close())
}

// holder tells whether a process holds the lock on a file, and its number: 0 if
// the file does not say, as for a moment at both ends of a hold.
func holder(path string) (held bool, pid int, err error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, 0, nil
	}
	if err != nil {
		return false, 0, err
	}
	defer file.Close()
	// The lock first: what stands in the file is its holder's only then.
	if err := lockFile(file, 0); !errors.Is(err, ErrLocked) {
		return false, 0, err
	}
	_, _ = fmt.Fscanln(file, &pid) // it stays 0
	return true, pid, nil
}

// lockFlags say how a file is locked; 0: shared with others, or not at all.
type lockFlags int

const (
	exclusive lockFlags = 1 << iota
	wait                // until it can be
)
