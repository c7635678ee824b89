package objectstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/versity/versitygw/backend/meta"
)

// openMetadata chooses where content types and ETags are kept: in extended
// attributes, which appear with the object in one step, or where the file system
// has none in a tree of sidecar files. A directory that has sidecars keeps them,
// wherever it is moved.
func openMetadata(root, buckets string) (meta.MetadataStorer, error) {
	sidecars := filepath.Join(root, "sidecar")
	switch _, err := os.Stat(sidecars); {
	case err == nil:
		return meta.NewSideCar(sidecars)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	ok, err := hasAttributes(buckets)
	if err != nil {
		return nil, err
	}
	if ok {
		return meta.XattrMeta{}, nil
	}
	if err := os.Mkdir(sidecars, 0o700); err != nil {
		return nil, err
	}
	return meta.NewSideCar(sidecars)
}

// hasAttributes tries to write an attribute and to read it: reading an absent one
// succeeds on file systems that then refuse to store it, and on Windows, where
// there are none, so does writing.
func hasAttributes(dir string) (bool, error) {
	probe, err := os.CreateTemp(filepath.Dir(dir), "probe-*")
	if err != nil {
		return false, err
	}
	defer os.Remove(probe.Name())
	defer probe.Close()
	attributes := meta.XattrMeta{}
	if attributes.StoreAttribute(probe, "", "", "probe", []byte("1")) != nil {
		return false, nil
	}
	stored, err := attributes.RetrieveAttribute(probe, "", "", "probe")
	return err == nil && string(stored) == "1", nil
}
