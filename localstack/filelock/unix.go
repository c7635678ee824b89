//go:build unix

package filelock

import (
	"errors"
	"os"
	"syscall"
)

// lockFile locks a file. Errors: ErrLocked.
func lockFile(f *os.File, how lockFlags) error {
	operation := syscall.LOCK_SH
	if how&exclusive != 0 {
		operation = syscall.LOCK_EX
	}
	if how&wait == 0 {
		operation |= syscall.LOCK_NB
	}
	err := syscall.Flock(int(f.Fd()), operation)
	for errors.Is(err, syscall.EINTR) {
		err = syscall.Flock(int(f.Fd()), operation)
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

func unlockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
