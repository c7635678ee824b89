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

// syncFile makes a file or a directory durable; tests look on.
var syncFile = (*os.File).Sync

// durable puts on the disk what was stored. A nil one does nothing.
type durable struct {
	buckets  string
	sidecars string // empty: metadata is in extended attributes, which a file's sync takes along
	known    knownDirs
}

// begin begins a write.
func (d *durable) begin() uint64 {
	if d == nil {
		return 0
	}
	return d.known.begin()
}

// deletion begins a deletion, which done ends.
func (d *durable) deletion() (done func()) {
	if d == nil {
		return func() {}
	}
	return d.known.deletion()
}

// stored returns when the objects of these keys, which a write stored that begun
// is of, and all directories that lead to them, are on the disk.
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

// made is stored for the bucket, and for what holds the buckets.
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

// syncParents syncs the directories between root and path up to the first that is
// known, and returns those whose names it has synced.
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
