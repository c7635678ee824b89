package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
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
		defer file.Close()
		if holder := holder(file); errors.Is(err, ErrLocked) && holder != 0 {
			return nil, fmt.Errorf("lock %s: %w, number %d", path, err, holder)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	l := &Lock{file}
	err = file.Truncate(0)
	if err == nil {
		_, err = file.WriteString(strconv.Itoa(os.Getpid()) + "\n")
	}
	if err != nil {
		return nil, errors.Join(err, l.Unlock())
	}
	return l, nil
}

// Unlock gives the lock up at once, also while a program that is being started
// still has the file open.
func (l *Lock) Unlock() error {
	return errors.Join(l.file.Truncate(0), unlockFile(l.file), l.file.Close())
}

// locked tells whether a process holds the lock on a file, and which: 0 if that
// cannot be told.
func locked(path string) (held bool, pid int, err error) {
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
	return true, holder(file), nil
}

// holder is the number in a file that is locked, 0 if there is none.
func holder(file *os.File) int {
	data, _ := io.ReadAll(io.LimitReader(file, 20)) // none is none
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid < 2 {
		return 0
	}
	return pid
}

// lockFlags say how a file is locked; 0: shared with others, or not at all.
type lockFlags int

const (
	exclusive lockFlags = 1 << iota
	wait                // until it can be
)
