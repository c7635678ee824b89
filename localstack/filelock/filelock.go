// Package filelock has exclusive locks between processes.
package filelock

import (
	"errors"
	"fmt"
	"os"
)

// ErrLocked means that another process holds a lock.
var ErrLocked = errors.New("locked by another process")

// Lock is an exclusive lock on a file that contains the process id of its
// holder. The kernel releases the lock when the process ends.
type Lock struct{ file *os.File }

// Try locks a file and creates it if missing. Errors: ErrLocked.
func Try(path string) (*Lock, error) { return open(path, exclusive) }

// Wait waits until it can lock a file, which it creates if missing.
func Wait(path string) (*Lock, error) { return open(path, exclusive|wait) }

func open(path string, how lockFlags) (*Lock, error) {
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

// Unlock releases the lock at once, even if a program that is being started
// still has the file open.
func (l *Lock) Unlock() error {
	return errors.Join(l.file.Truncate(0), unlockFile(l.file), l.file.Close())
}

// Holder reports whether a process holds the lock on a file, and its id: 0 if
// the file does not contain it, as for a moment at both ends of a hold.
func Holder(path string) (held bool, pid int, err error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, 0, nil
	}
	if err != nil {
		return false, 0, err
	}
	defer file.Close()
	// The lock first, because the content is valid only while the file is locked.
	if err := lockFile(file, 0); !errors.Is(err, ErrLocked) {
		return false, 0, err
	}
	_, _ = fmt.Fscanln(file, &pid) // 0 on errors
	return true, pid, nil
}

// lockFlags tell how to lock a file; 0 means shared, without waiting.
type lockFlags int

const (
	exclusive lockFlags = 1 << iota
	wait                // until the lock is free
)
