//go:build unix

package interpreters

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const maxDepth = 64 // of directories in a scratch directory

// scratch measures a directory while a task writes to it.
type scratch struct {
	dir string
}

// measure returns the bytes on disk and the number of files below the
// directory. It stops counting when either exceeds its limit. Too deeply nested
// directories count as too many files.
func (s *scratch) measure(limit int64) (bytes int64, files int) {
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return 0, 0
	}
	defer func() { _ = root.Close() }()
	waiting := []string{"."}
	for len(waiting) > 0 && bytes <= limit && files <= maxFiles {
		name := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		if strings.Count(name, "/") > maxDepth {
			return bytes, maxFiles + 1
		}
		// Must not block if a pipe has replaced the directory.
		dir, err := root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		names, _ := dir.Readdirnames(maxFiles + 1)
		for _, n := range names {
			var info unix.Stat_t
			if unix.Fstatat(int(dir.Fd()), n, &info, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue
			}
			files++
			bytes += info.Blocks * 512
			if info.Mode&unix.S_IFMT == unix.S_IFDIR {
				waiting = append(waiting, filepath.Join(name, n))
			}
		}
		dir.Close()
	}
	return bytes, files
}

// deviceOf returns the device of a directory.
func deviceOf(dir string) uint64 {
	var info unix.Stat_t
	if unix.Stat(dir, &info) != nil {
		return 0
	}
	return uint64(info.Dev) //nolint:unconvert // an int32 on macOS
}
