package store

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// retryPause is the pause before a write is retried on a full disk.
const retryPause = 50 * time.Millisecond

// files is the file system of a store: files are accessible only to their
// owner, logs are synced on each commit or only when closed, and writes wait
// for space on a full disk, for which Pebble would end the process.
type files struct {
	vfs.FS
	lazy bool // logs are not synced before they are closed
	boot string
	log  *slog.Logger
	full atomic.Bool // a full disk has been logged
}

// Create creates a file for writing.
func (f *files) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.writable(name, func() (vfs.File, error) { return f.FS.Create(name, category) })
}

// OpenReadWrite opens a file, or creates it.
func (f *files) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.writable(name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, category, opts...) })
}

// ReuseForWrite renames a file and opens it for writing. Logs that are not
// synced do not benefit from it and are created anew.
func (f *files) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if f.lazy {
		if err := f.FS.Remove(oldname); err != nil {
			return nil, err
		}
		return f.Create(newname, category)
	}
	return f.writable(newname, func() (vfs.File, error) { return f.FS.ReuseForWrite(oldname, newname, category) })
}

// MkdirAll creates a directory that is accessible only to its owner.
func (f *files) MkdirAll(dir string, _ fs.FileMode) error {
	return f.patiently(func() error { return f.FS.MkdirAll(dir, 0o700) })
}

// Rename renames a file.
func (f *files) Rename(oldname, newname string) error {
	return f.patiently(func() error { return f.FS.Rename(oldname, newname) })
}

// Link links a file.
func (f *files) Link(oldname, newname string) error {
	return f.patiently(func() error { return f.FS.Link(oldname, newname) })
}

// Lock locks a file.
func (f *files) Lock(name string) (io.Closer, error) {
	lock, err := f.FS.Lock(name)
	if err == nil && f.FS == vfs.Default {
		if err := os.Chmod(name, 0o600); err != nil {
			return nil, errors.Join(err, lock.Close())
		}
	}
	return lock, err
}

// Unwrap returns the underlying file system.
func (f *files) Unwrap() vfs.FS { return f.FS }

// writable opens a file for writing. Pebble tolerates a table that cannot be
// written, and removes it, but no other file.
func (f *files) writable(name string, open func() (vfs.File, error)) (file vfs.File, err error) {
	err = f.patiently(func() error {
		file, err = open()
		return err
	})
	if err != nil {
		return nil, err
	}
	if chmod, ok := file.(interface{ Chmod(fs.FileMode) error }); ok {
		if err := chmod.Chmod(0o600); err != nil {
			return nil, err
		}
	}
	if strings.HasSuffix(name, ".sst") {
		return &tableFile{file, f}, nil
	}
	out := &patientFile{File: file, files: f}
	if number, ok := logNumber(f.PathBase(name)); ok {
		if err := (bootMark{f.boot, !f.lazy, number}).write(f, f.PathDir(name)); err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	if f.lazy && strings.HasSuffix(name, ".log") {
		return &lazyLog{out}, nil
	}
	return out, nil
}

// patiently retries do on a full disk until there is space.
func (f *files) patiently(do func() error) error {
	for {
		err := do()
		if err == nil || !vfs.IsNoSpaceError(err) {
			return err
		}
		f.wait(err)
	}
}

// wrote records that bytes were written. Creating a name does not prove that
// there is space.
func (f *files) wrote(n int) {
	if n > 0 && f.full.Load() && f.full.CompareAndSwap(true, false) {
		f.log.Warn("store: the disk has room again")
	}
}

// wait waits before a retry on a full disk.
func (f *files) wait(err error) {
	if f.full.CompareAndSwap(false, true) {
		f.log.Error("store: the disk is full: writes wait until there is room", "error", err)
	}
	time.Sleep(retryPause)
}

// tableFile is a table being written. A write on a full disk fails after a
// pause, because Pebble would otherwise retry the table forever without one.
type tableFile struct {
	vfs.File
	files *files
}

// Write writes p.
func (f *tableFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	if vfs.IsNoSpaceError(err) {
		f.files.wait(err)
	} else {
		f.files.wrote(n)
	}
	return n, err
}

// patientFile waits for space on a full disk.
type patientFile struct {
	vfs.File
	files *files
}

// Write writes p, in several steps if the disk is full.
func (f *patientFile) Write(p []byte) (n int, err error) {
	err = f.files.patiently(func() error {
		wrote, err := f.File.Write(p[n:])
		n += wrote
		return err
	})
	f.files.wrote(n)
	return n, err
}

// lazyLog is a log that is synced only when it is closed. Until then its
// content is with the operating system and survives the process. A closed log
// must be on disk, because Pebble tolerates a torn end only in the newest log.
type lazyLog struct{ *patientFile }

// Sync does nothing.
func (*lazyLog) Sync() error { return nil }

// SyncData does nothing.
func (*lazyLog) SyncData() error { return nil }

// SyncTo does nothing.
func (*lazyLog) SyncTo(int64) (fullSync bool, err error) { return false, nil }

// Close syncs and closes the log.
func (f *lazyLog) Close() error {
	if err := f.File.Sync(); err != nil {
		_ = f.File.Close()
		return err
	}
	return f.File.Close()
}
