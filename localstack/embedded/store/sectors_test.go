package store

import (
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// sectorSize is the unit in which a disk writes.
const sectorSize = 512

// sectors is an in-memory file system that loses in a power cut any sectors
// that were not synced, also in the middle of files. Names are durable at once;
// vfs.MemFS simulates the loss of names.
type sectors struct {
	vfs.FS
	mu    sync.Mutex
	files map[string]*sectorData
}

// sectorData is the content of a file, as written and as synced.
type sectorData struct{ written, synced []byte }

func newSectors(fs vfs.FS) *sectors { return &sectors{FS: fs, files: map[string]*sectorData{}} }

// Create creates a file.
func (s *sectors) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.Create(name, category)
	return s.open(name, f, err, &sectorData{})
}

// ReuseForWrite renames a file and opens it for writing, with its content.
func (s *sectors) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.ReuseForWrite(oldname, newname, category)
	s.mu.Lock()
	data := s.files[oldname]
	delete(s.files, oldname)
	s.mu.Unlock()
	return s.open(newname, f, err, data)
}

func (s *sectors) open(name string, f vfs.File, err error, data *sectorData) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name] = data
	return &sectorFile{File: f, fs: s, data: data}, nil
}

// Rename renames a file.
func (s *sectors) Rename(oldname, newname string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if data := s.files[oldname]; data != nil {
		s.files[newname] = data
		delete(s.files, oldname)
	}
	return s.FS.Rename(oldname, newname)
}

// Remove removes a file.
func (s *sectors) Remove(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, name)
	return s.FS.Remove(name)
}

// cut returns the file system after a power cut. Each sector that was not
// synced is kept with the given probability in percent.
func (s *sectors) cut(rng *rand.Rand, percent int) (*sectors, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := newSectors(vfs.NewMem())
	for name, data := range s.files {
		left := data.cut(rng, percent)
		if err := out.MkdirAll(out.PathDir(name), 0o700); err != nil {
			return nil, err
		}
		f, err := out.Create(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			return nil, err
		}
		if _, err := f.Write(left); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (d *sectorData) cut(rng *rand.Rand, percent int) []byte {
	left := slices.Clone(d.synced)
	for at := 0; at < len(d.written); at += sectorSize {
		sector := d.written[at:min(at+sectorSize, len(d.written))]
		if at+len(sector) <= len(d.synced) && slices.Equal(sector, d.synced[at:at+len(sector)]) || rng.IntN(100) >= percent {
			continue
		}
		if missing := at + len(sector) - len(left); missing > 0 {
			left = append(left, make([]byte, missing)...)
		}
		copy(left[at:], sector)
	}
	return left
}

// sectorFile writes a file from its beginning.
type sectorFile struct {
	vfs.File
	fs   *sectors
	data *sectorData
	at   int
}

// Write appends to what was written.
func (f *sectorFile) Write(p []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if missing := f.at + len(p) - len(f.data.written); missing > 0 {
		f.data.written = append(f.data.written, make([]byte, missing)...)
	}
	copy(f.data.written[f.at:], p)
	f.at += len(p)
	return f.File.Write(p)
}

// Sync syncs what was written.
func (f *sectorFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.data.synced = slices.Clone(f.data.written)
	return nil
}

// SyncData is Sync.
func (f *sectorFile) SyncData() error { return f.Sync() }

// SyncTo does nothing.
func (f *sectorFile) SyncTo(int64) (fullSync bool, err error) { return false, nil }
