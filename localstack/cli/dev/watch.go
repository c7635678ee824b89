package dev

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// How long to wait for the rest of a save: until the files are quiet, but not forever
// where something writes all the time.
const (
	quiet    = 40 * time.Millisecond
	atLatest = 200 * time.Millisecond
)

// save is a change of files.
type save struct {
	at   time.Time // of the first of its changes
	path string    // of the last
}

// unpacked are folders that are not deployed, besides hidden ones; as pack leaves them out.
var unpacked = []string{"__pycache__", "node_modules", "venv"}

// deployed reports whether the file at a path below the root belongs to what is deployed.
func deployed(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	if err != nil || rel == "." || strings.HasSuffix(rel, ".pyc") || strings.HasSuffix(rel, "~") {
		return false
	}
	for part := range strings.SplitSeq(rel, string(filepath.Separator)) {
		if strings.HasPrefix(part, ".") || slices.Contains(unpacked, part) {
			return false
		}
	}
	return true
}

// watch tells of saves below root until ctx ends.
func watch(ctx context.Context, root string) (<-chan save, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if err := add(w, root, root); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	changes := make(chan save)
	go func() {
		defer close(changes)
		defer func() { _ = w.Close() }() // it only reads
		for {
			select {
			case <-ctx.Done():
				return
			case event, ok := <-w.Events:
				if !ok {
					return
				}
				if event.Op == fsnotify.Chmod || !deployed(root, event.Name) {
					continue
				}
				if event.Has(fsnotify.Create) {
					_ = add(w, root, event.Name) // it may be gone already
				}
				changes <- save{time.Now(), event.Name}
			case err := <-w.Errors:
				if err != nil { // an overflow: something has changed
					changes <- save{time.Now(), root}
				}
			}
		}
	}()
	return settle(changes), nil
}

// add watches a folder and those below it; a file is watched by its folder.
func add(w *fsnotify.Watcher, root, path string) error {
	return filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path != root:
			return nil
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		case path != root && !deployed(root, path):
			return fs.SkipDir
		}
		if err := w.Add(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	})
}

// settle makes one save of changes that follow each other at once, until changes is
// closed. A save that nobody has taken yet grows.
func settle(changes <-chan save) <-chan save {
	saves := make(chan save)
	go func() {
		defer close(saves)
		var next save
		var ripe <-chan time.Time // nil: no change waits
		var out chan<- save       // nil: none is ripe
		for {
			select {
			case change, ok := <-changes:
				if !ok {
					return
				}
				if ripe == nil && out == nil {
					next.at = change.at
				}
				next.path = change.path
				if out == nil {
					ripe = time.After(min(quiet, max(0, atLatest-time.Since(next.at))))
				}
			case <-ripe:
				ripe, out = nil, saves
			case out <- next:
				out = nil
			}
		}
	}()
	return saves
}
