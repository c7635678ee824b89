package objectstore

import "os"

// openToSync opens a file for writing, which syncing requires on Windows. It
// returns nil for a directory, which cannot be synced there.
func openToSync(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

func openRegular(path string) (*os.File, error) { return os.Open(path) }
