package objectstore

import "sync"

// maxKnown is how many directories are remembered.
const maxKnown = 10_000

// knownDirs are directories whose names, and those of all that lead to them, are
// on the disk, so that they need not be synced for each object below them. A
// deletion may remove directories, so it makes all of them unknown.
type knownDirs struct {
	mu       sync.Mutex
	dirs     map[string]struct{}
	deletes  uint64 // that have begun, plus one
	deleting int    // that are under way
}

// begin tells when a write began, for add; 0 if a deletion is under way.
func (k *knownDirs) begin() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.deleting > 0 {
		return 0
	}
	return k.deletes + 1
}

func (k *knownDirs) has(dir string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, known := k.dirs[dir]
	return known
}

// add remembers directories that were synced, unless a deletion may have removed
// them since begin.
func (k *knownDirs) add(begun uint64, dirs []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if begun != k.deletes+1 || len(dirs) == 0 {
		return
	}
	if k.dirs == nil || len(k.dirs)+len(dirs) > maxKnown {
		k.dirs = map[string]struct{}{}
	}
	for _, dir := range dirs {
		k.dirs[dir] = struct{}{}
	}
}

// deletion begins a deletion, which done ends.
func (k *knownDirs) deletion() (done func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.deletes++
	k.deleting++
	clear(k.dirs)
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.deleting--
	}
}
