package objectstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/versity/versitygw/backend/meta"
)

// syncFile makes a file or a directory durable; tests look on.
var syncFile = (*os.File).Sync

// durable puts on the disk what was stored. A nil one does nothing.
type durable struct {
	buckets  string
	sidecars string // empty: metadata is in extended attributes, which a file's sync takes along
}

// stored returns when the objects of these keys, and all directories that lead to
// them, are on the disk.
func (d *durable) stored(bucket string, keys ...string) error {
	if d == nil {
		return nil
	}
	for _, key := range keys {
		if d.sidecars != "" {
			if err := syncSidecars(filepath.Join(d.sidecars, bucket, key, "meta")); err != nil {
				return err
			}
			if err := syncParents(d.sidecars, filepath.Join(bucket, key, "meta")); err != nil {
				return err
			}
		}
		path := filepath.Join(bucket, key)
		if err := syncPath(filepath.Join(d.buckets, path)); err != nil {
			return err
		}
		if err := syncParents(d.buckets, path); err != nil {
			return err
		}
	}
	return nil
}

// made is stored for the bucket, and for what holds the buckets.
func (d *durable) made(root, bucket string) error {
	if d == nil {
		return nil
	}
	if err := d.stored(bucket, ""); err != nil {
		return err
	}
	for _, dir := range []string{d.buckets, d.sidecars, root, filepath.Dir(root)} {
		if dir == "" {
			continue
		}
		if err := syncPath(dir); err != nil {
			return err
		}
	}
	return nil
}

// syncSidecars syncs an object's metadata, one file an attribute.
func syncSidecars(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, file := range files {
		if err := syncPath(filepath.Join(dir, file.Name())); err != nil {
			return err
		}
	}
	return syncPath(dir)
}

// syncParents syncs the directories between root and path, for each may be new.
func syncParents(root, path string) error {
	for path = filepath.Dir(path); path != "."; path = filepath.Dir(path) {
		if err := syncPath(filepath.Join(root, path)); err != nil {
			return err
		}
	}
	return nil
}

// syncPath syncs a file or directory. One that is gone was deleted or replaced
// meanwhile, and needs it no more.
func syncPath(path string) error {
	f, err := openToSync(path)
	if errors.Is(err, fs.ErrNotExist) || f == nil && err == nil {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(syncFile(f), f.Close())
}

// syncedMetadata syncs a file that is about to get its name when its ETag is
// stored, which is when it is complete: else a power cut could leave the name of
// an acknowledged object to one that has taken its place and has no content yet.
type syncedMetadata struct{ meta.MetadataStorer }

// StoreAttribute stores an attribute.
func (m syncedMetadata) StoreAttribute(f *os.File, bucket, object, attribute string, value []byte) error {
	err := m.MetadataStorer.StoreAttribute(f, bucket, object, attribute, value)
	if err == nil && f != nil && attribute == "etag" {
		err = syncFile(f)
	}
	return err
}
