package objectstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
)

// syncFile makes a file or a directory durable. Tests replace it.
var syncFile = (*os.File).Sync

// durable makes stored objects durable. A nil durable does nothing.
type durable struct {
	buckets  string
	sidecars string // empty if metadata is in extended attributes, which are synced with their file
	known    knownDirs
}

// begin begins a write and returns its number.
func (d *durable) begin() uint64 {
	if d == nil {
		return 0
	}
	return d.known.begin()
}

// deletion begins a deletion, which ends with done.
func (d *durable) deletion() (done func()) {
	if d == nil {
		return func() {}
	}
	return d.known.deletion()
}

// stored returns when the objects with these keys, written since begun, and all
// directories that lead to them are durable.
func (d *durable) stored(begun uint64, bucket string, keys ...string) error {
	if d == nil {
		return nil
	}
	for _, key := range keys {
		if d.sidecars != "" {
			if err := syncSidecars(filepath.Join(d.sidecars, bucket, key, "meta")); err != nil {
				return err
			}
			if _, err := syncParents(d.sidecars, filepath.Join(bucket, key, "meta"), nil); err != nil {
				return err
			}
		}
		path := filepath.Join(bucket, key)
		if err := syncPath(filepath.Join(d.buckets, path)); err != nil {
			return err
		}
		if strings.HasPrefix(key, posix.MetaTmpDir) { // uploads end without a deletion
			if _, err := syncParents(d.buckets, path, nil); err != nil {
				return err
			}
			continue
		}
		synced, err := syncParents(d.buckets, path, d.known.has)
		if err != nil {
			return err
		}
		d.known.add(begun, synced)
	}
	return nil
}

// made is stored for the bucket and its parent directories.
func (d *durable) made(root, bucket string) error {
	if d == nil {
		return nil
	}
	if err := d.stored(0, bucket, ""); err != nil {
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

// syncSidecars syncs an object's metadata, which has one file per attribute.
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

// syncParents syncs the directories between root and path up to the first known
// one, and returns the directories that it synced.
func syncParents(root, path string, known func(dir string) bool) (synced []string, err error) {
	for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
		if err := syncPath(filepath.Join(root, dir)); err != nil {
			return nil, err
		}
		if known != nil && known(dir) {
			break
		}
		synced = append(synced, dir)
	}
	return synced, nil
}

// syncPath syncs a file or directory. One that no longer exists was deleted or
// replaced meanwhile.
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

// syncedMetadata syncs a file when its ETag is stored, which happens when the
// file is complete and before it is renamed. Otherwise a power cut could leave
// the name of an acknowledged object with an empty file that was to replace it.
type syncedMetadata struct{ meta.MetadataStorer }

// StoreAttribute stores an attribute.
func (m syncedMetadata) StoreAttribute(f *os.File, bucket, object, attribute string, value []byte) error {
	err := m.MetadataStorer.StoreAttribute(f, bucket, object, attribute, value)
	if err == nil && f != nil && attribute == "etag" {
		err = syncFile(f)
	}
	return err
}
