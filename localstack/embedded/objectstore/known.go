package objectstore

import "sync"

// maxKnown is the number of directories that are remembered.
const maxKnown = 10_000

// knownDirs remembers directories that are durable together with all their
// parents, so that they need not be synced for each object. A deletion may
// remove directories, so it clears the set.
type knownDirs struct {
	mu       sync.Mutex
	dirs     map[string]struct{}
	deletes  uint64 // started so far, plus one
	deleting int    // in progress
}

// begin returns a number for add when a write begins, or 0 while a deletion is
// in progress.
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

// add remembers synced directories, unless a deletion may have removed them
// since begin.
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

// deletion begins a deletion, which ends with done.
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
