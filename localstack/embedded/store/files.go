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

// retryPause is how long a write that the full disk refused waits.
const retryPause = 50 * time.Millisecond

// files is a file system as the store needs it: its files are the owner's alone,
// logs are synced or only closed so, and a full disk is waited out where Pebble
// would end the process.
type files struct {
	vfs.FS
	lazy bool // logs are not synced before they are closed
	boot string
	log  *slog.Logger
	full atomic.Bool // it has been logged
}

// Create makes a file for writing.
func (f *files) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.writable(name, func() (vfs.File, error) { return f.FS.Create(name, category) })
}

// OpenReadWrite opens a file, or makes it.
func (f *files) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.writable(name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, category, opts...) })
}

// ReuseForWrite opens a file under another name, for writing. Logs that are not
// synced gain nothing by it, and are made anew.
func (f *files) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if f.lazy {
		if err := f.FS.Remove(oldname); err != nil {
			return nil, err
		}
		return f.Create(newname, category)
	}
	return f.writable(newname, func() (vfs.File, error) { return f.FS.ReuseForWrite(oldname, newname, category) })
}

// MkdirAll makes a directory that is the owner's alone.
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

// Unwrap returns the file system beneath.
func (f *files) Unwrap() vfs.FS { return f.FS }

// writable opens a file for writing. Of a table Pebble bears that it cannot be
// written, and removes what there is of it; of all else it does not.
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

// patiently repeats what a full disk refuses until there is room.
func (f *files) patiently(do func() error) error {
	for {
		err := do()
		if err == nil || !vfs.IsNoSpaceError(err) {
			return err
		}
		f.wait(err)
	}
}

// wrote notes that something was written, which a name alone does not show.
func (f *files) wrote(n int) {
	if n > 0 && f.full.Load() && f.full.CompareAndSwap(true, false) {
		f.log.Warn("store: the disk has room again")
	}
}

// wait waits for room on a full disk.
func (f *files) wait(err error) {
	if f.full.CompareAndSwap(false, true) {
		f.log.Error("store: the disk is full: writes wait until there is room", "error", err)
	}
	time.Sleep(retryPause)
}

// tableFile is a table that is being written. What a full disk refuses is refused,
// after a while: Pebble begins the table anew at once, and for ever.
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

// patientFile waits out a full disk.
type patientFile struct {
	vfs.File
	files *files
}

// Write writes p, in more than one step if the disk is full.
func (f *patientFile) Write(p []byte) (n int, err error) {
	err = f.files.patiently(func() error {
		wrote, err := f.File.Write(p[n:])
		n += wrote
		return err
	})
	f.files.wrote(n)
	return n, err
}

// lazyLog is a log that is synced when it is closed and not before: what is
// written is with the operating system, which survives the process. Closed it
// must be on the disk, for Pebble bears a torn end in the newest log only.
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
