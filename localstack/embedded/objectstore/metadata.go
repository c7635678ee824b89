package objectstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/versity/versitygw/backend/meta"
)

// openMetadata chooses where content types and ETags are stored: in extended
// attributes, which appear atomically with the object, or, on file systems
// without them, in a tree of sidecar files. A directory with sidecars keeps
// them, wherever it is moved. sidecars is the path of the tree, empty if there
// is none.
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

// hasAttributes tests attributes by writing and reading one: on some file
// systems reading an absent attribute succeeds although writing fails, and on
// Windows, which has none, writing succeeds.
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
