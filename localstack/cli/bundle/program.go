package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// Program is an embedded program.
type Program struct {
	Name    string // file name
	ID      string // unique for each build
	Content string
}

// Run replaces this process with the program, which gets the same arguments. It
// returns only on failure: if the file can be written to, or executed in, none of
// [folders].
func (p Program) Run() error {
	var all error
	for _, dir := range folders() {
		file, err := p.unpack(dir)
		if err == nil {
			err = become(file)
		}
		all = errors.Join(all, err)
	}
	return fmt.Errorf("this command's program cannot be unpacked, a folder that XDG_CACHE_HOME or TMPDIR names may do:\n%w", all)
}

// folders returns where the program may be unpacked: the user's cache, then, for
// services without a home directory, a folder of this user in the temporary directory.
func folders() []string {
	var dirs []string
	if cache, err := os.UserCacheDir(); err == nil {
		dirs = append(dirs, filepath.Join(cache, "millrace"))
	}
	return append(dirs, filepath.Join(os.TempDir(), "millrace-"+strconv.Itoa(os.Geteuid())))
}

// unpack returns the program's file in a folder. If it is missing, it is written and
// the files of other builds are removed.
func (p Program) unpack(dir string) (file string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	// Anyone who can write there could replace the program.
	if err := private(dir); err != nil {
		return "", err
	}
	file = filepath.Join(dir, p.ID, p.Name)
	if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() && info.Size() == int64(len(p.Content)) {
		return file, nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", err
	}
	if err := p.write(file); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() && e.Name() != p.ID {
			_ = os.RemoveAll(filepath.Join(dir, e.Name())) // one that runs may be in use, on Windows
		}
	}
	return file, err
}

// write writes the file atomically: several processes may start at once, and the
// power may fail.
func (p Program) write(file string) (err error) {
	temporary, err := os.CreateTemp(filepath.Dir(file), ".unpacking-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreMissing(os.Remove(temporary.Name())))
		}
	}()
	_, err = temporary.WriteString(p.Content)
	err = errors.Join(err, temporary.Chmod(0o700), temporary.Sync(), temporary.Close())
	if err != nil {
		return err
	}
	return os.Rename(temporary.Name(), file)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
