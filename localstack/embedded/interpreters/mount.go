package interpreters

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Mount is a directory of the machine that tasks see at the same path.
type Mount struct {
	Path     string `json:"path"` // absolute, without symbolic links
	Writable bool   `json:"writable"`
}

// String returns the mount as an operator writes it.
func (m Mount) String() string {
	if m.Writable {
		return m.Path + ":rw"
	}
	return m.Path
}

// closed are the directories that a mount must not be, contain or be in: the
// kernel's, and those that each task has of its own.
var closed = []string{"/proc", "/sys", "/dev", "/tmp", "/var/tmp"}

// ParseMounts parses mounts written as DIR or DIR:rw. It rejects those that
// would show tasks the data directory, a whole home or the whole machine, and
// directories that tasks have of their own. Errors name the mount.
func ParseMounts(written []string, data string) ([]Mount, error) {
	mounts := make([]Mount, 0, len(written))
	for _, text := range written {
		m, err := parseMount(text, data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

func parseMount(text, data string) (Mount, error) {
	path, writable := strings.CutSuffix(text, ":rw")
	path, _ = strings.CutSuffix(path, ":ro")
	path, err := filepath.Abs(path)
	if err != nil {
		return Mount{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return Mount{}, errors.Unwrap(err) // the path of a path error is in the message already
	}
	if !info.IsDir() {
		return Mount{}, errors.New("it is no directory")
	}
	path, err = filepath.EvalSymlinks(path)
	if err != nil {
		return Mount{}, err
	}
	if path == filepath.Dir(path) {
		return Mount{}, errors.New("it is the whole machine")
	}
	for _, dir := range closed {
		if within(path, dir) || within(dir, path) {
			return Mount{}, fmt.Errorf("tasks have a %s of their own, choose a directory that has nothing to do with it", dir)
		}
	}
	if real, err := filepath.EvalSymlinks(data); err == nil {
		data = real
	}
	if within(path, data) || within(data, path) {
		return Mount{}, fmt.Errorf("it would show tasks the data directory %s", data)
	}
	if home, err := os.UserHomeDir(); err == nil {
		if real, err := filepath.EvalSymlinks(home); err == nil && within(real, path) {
			return Mount{}, fmt.Errorf("it would show tasks the whole home %s, choose a directory in it", home)
		}
	}
	return Mount{path, writable}, nil
}

// within reports whether a path is a directory or in it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator))
}
