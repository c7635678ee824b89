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
// wherever it is moved. sidecars is that tree, empty if there is none.
func openMetadata(root, buckets string) (storer meta.MetadataStorer, sidecars string, err error) {
	sidecars = filepath.Join(root, "sidecar")
	_, err = os.Stat(sidecars)
	if errors.Is(err, fs.ErrNotExist) {
		var ok bool
		if ok, err = hasAttributes(buckets); ok {
			return meta.XattrMeta{}, "", nil
		}
		if err == nil {
			err = os.Mkdir(sidecars, 0o700)
		}
	}
	if err != nil {
		return nil, "", err
	}
	storer, err = meta.NewSideCar(sidecars)
	return storer, sidecars, err
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
