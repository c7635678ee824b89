//go:build !windows

package objectstore

import (
	"os"
	"syscall"
)

// openRegular opens a file for reading, without following symbolic links and
// without blocking on a pipe.
func openRegular(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
}

func openToSync(path string) (*os.File, error) { return os.Open(path) }
