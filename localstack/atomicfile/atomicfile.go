// Package atomicfile replaces files at once, and makes their names durable.
package atomicfile

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
)

// Write atomically replaces a file that only its owner can access. If it
// returns nil, the file and its name are durable; otherwise the previous file
// is unchanged. A process that dies may leave a file of that name with a suffix
// after a dot.
func Write(path string, data []byte) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(dir)
}

// WriteJSON is Write for a value encoded as JSON.
func WriteJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return Write(path, append(data, '\n'))
}
