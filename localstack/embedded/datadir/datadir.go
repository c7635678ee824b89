// Package datadir manages the embedded server's data directory: the names in
// it, its format, and its use by one process at a time.
package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/localstack/atomicfile"
)

// Format is the version of the layout that this program reads and writes.
const Format = 1

// Names in a data directory.
const (
	formatFile = "format.json"
	backupFile = "backup.json"
	lockFile   = "lock"
	ignoreFile = ".gitignore"
	storeDir   = "store"
	// sqliteFile is the database of formats before 1. Data directories of later
	// formats have a file of that name that is not a database, so that an older
	// program refuses the directory instead of creating a new database in it.
	sqliteFile = "millrace.db"
)

// LastSQLite is the last version that opens data directories of formats before
// 1.
const LastSQLite = "c44bae1"

const sqliteNotice = "This data directory is of a later version of Millrace, which has no SQLite database.\n"

// Errors of Open.
var (
	// ErrInUse means that another process uses the directory.
	ErrInUse = errors.New("the data directory is in use by another server")
	// ErrFormat means that the directory has a format that this program does not
	// open. It is unchanged. The error is wrapped with the version that opens it.
	ErrFormat = errors.New("the data directory is of another format")
	// ErrForeign means that the directory is not a data directory and has other
	// files. It is unchanged: a server would take it from its other users.
	ErrForeign = errors.New("not a data directory")
)

// Dir is a data directory locked by this process.
type Dir struct {
	Path   string
	Backup *Backup // not nil if the directory is a backup that no server has adopted
	lock   io.Closer
}

// format is the content of formatFile.
type format struct {
	Format  int    `json:"format"`
	Version string `json:"version"` // of the program that created the directory
}

// Backup is stored in the directory of a backup.
type Backup struct {
	Of      string    `json:"of"` // the data directory
	At      time.Time `json:"at"`
	Version string    `json:"version"` // of the server
}

// Open locks a data directory for this process and creates it if it is missing.
// Errors: ErrInUse, ErrFormat, ErrForeign.
func Open(path, version string) (*Dir, error) {
	if err := Check(path); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := own(path); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := vfs.Default.Lock(filepath.Join(path, lockFile))
	if err != nil {
		if _, unopened := errors.AsType[*fs.PathError](err); unopened {
			return nil, fmt.Errorf("data directory: %w", err)
		}
		return nil, fmt.Errorf("%w: %s (%w)", ErrInUse, path, err)
	}
	d := &Dir{Path: path, lock: lock}
	if err := os.Chmod(d.name(lockFile), 0o600); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if err := d.prepare(version); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return d, nil
}

// own makes an existing directory accessible only to its owner. If it belongs
// to another user, it is left alone, provided that only its group has access.
func own(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return err
	}
	if err := os.Chmod(path, 0o700); err != nil && info.Mode().Perm()&0o007 != 0 {
		return fmt.Errorf("%s is open to all users (mode %04o) and another's: make it the server's, mode 0700: %w", path, info.Mode().Perm(), err)
	}
	return nil
}

// Check reports whether this program can open the directory, which may be
// missing. It changes nothing. Errors: ErrFormat, ErrForeign.
func Check(path string) error {
	var f format
	known, err := read(filepath.Join(path, formatFile), &f)
	switch {
	case err != nil:
		return fmt.Errorf("data directory: %w", err)
	case known && f.Format > Format:
		return fmt.Errorf("%w: %s has format %d, made by Millrace %s, and this version reads up to %d: start that version or a later one",
			ErrFormat, path, f.Format, f.Version, Format)
	case known:
		return nil
	}
	if sqlite(filepath.Join(path, sqliteFile)) {
		return fmt.Errorf("%w: %s holds a SQLite database, which Millrace %s was the last version to open; nothing in it was changed",
			ErrFormat, path, LastSQLite)
	}
	if _, err := os.Stat(filepath.Join(path, storeDir)); err == nil {
		return fmt.Errorf("%w: %s has a store and no %s: it is a backup that was not finished", ErrFormat, path, formatFile)
	}
	return unused(path)
}

// sqlite reports whether a file exists and is not what this program writes in place
// of a database, as a whole or in part: a first start may have been interrupted.
func sqlite(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	begin := make([]byte, len(sqliteNotice)+1)
	n, err := io.ReadFull(f, begin)
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	return !ended || !strings.HasPrefix(sqliteNotice, string(begin[:n]))
}

// unused checks that a directory without a format, which may be missing, has only what
// a first start that was interrupted left, and what file systems put into an empty one.
func unused(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("data directory: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		left := slices.ContainsFunc([]string{ignoreFile, formatFile}, func(file string) bool { return strings.HasPrefix(name, file+".") })
		if !left && !slices.Contains([]string{lockFile, ignoreFile, sqliteFile, "lost+found", ".DS_Store"}, name) {
			return fmt.Errorf("%w: %s has other files, such as %s: name a new or an empty directory, such as %s",
				ErrForeign, path, name, filepath.Join(path, ".millrace"))
		}
	}
	return nil
}

// prepare creates the missing files of the directory, and reads whether it is a
// backup.
func (d *Dir) prepare(version string) error {
	var f format
	known, err := read(d.name(formatFile), &f)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if err := d.ignore(); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if !known {
		if err := d.stamp(version); err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
	}
	var b Backup
	restored, err := read(d.name(backupFile), &b)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if restored {
		d.Backup = &b
	}
	return nil
}

// ignore makes git ignore the directory, credentials and keys above all, unless
// it has a .gitignore.
func (d *Dir) ignore() error {
	path := d.name(ignoreFile)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return atomicfile.Write(path, []byte("*\n"))
}

// stamp makes a directory one of this format.
func (d *Dir) stamp(version string) error {
	if err := os.WriteFile(d.name(sqliteFile), []byte(sqliteNotice), 0o600); err != nil {
		return err
	}
	return atomicfile.WriteJSON(d.name(formatFile), format{Format, version})
}

// MarkBackup marks a directory with a store as a backup. Before that, it cannot
// be opened.
func MarkBackup(path string, b Backup) error {
	if err := atomicfile.WriteJSON(filepath.Join(path, backupFile), b); err != nil {
		return err
	}
	return (&Dir{Path: path}).stamp(b.Version)
}

// Adopt converts a backup to an ordinary data directory.
func (d *Dir) Adopt() error {
	d.Backup = nil
	if err := os.Remove(d.name(backupFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Store returns the directory of table and queues.
func (d *Dir) Store() string { return Store(d.Path) }

// Store returns the directory of table and queues in a data directory.
func Store(path string) string { return filepath.Join(path, storeDir) }

// Close unlocks the directory.
func (d *Dir) Close() error { return d.lock.Close() }

func (d *Dir) name(file string) string { return filepath.Join(d.Path, file) }

// read reads a JSON file. It returns false if the file does not exist.
func read(path string, v any) (bool, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	return true, nil
}
