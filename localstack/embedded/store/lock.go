package store

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// acquire takes an exclusive lock on a file beside the database. The kernel
// releases it with the process, so a kill leaves nothing to clean up; the
// process id in it only helps whoever looks.
func acquire(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder := make([]byte, 20)
		n, _ := f.ReadAt(holder, 0)
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w (process %s holds %s)", ErrInUse, holder[:n], path)
		}
		return nil, fmt.Errorf("store: lock %s: %w", path, err)
	}
	// The lock is what counts: failing to note the holder is no failure.
	_ = f.Truncate(0)
	_, _ = fmt.Fprint(f, os.Getpid())
	return f, nil
}

// release gives the lock up at once: a child that is being started has the file
// open until it runs its program.
func release(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}
