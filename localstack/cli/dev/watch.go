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

// How long to wait for further changes of a save: until there were none for quiet, but
// no longer than the maximum if files change all the time.
const (
	quiet    = 40 * time.Millisecond
	atLatest = 200 * time.Millisecond
)

// save is one or more changes of files.
type save struct {
	at   time.Time // time of the first change
	path string    // file of the last change
}

// unpacked are the folders that are not deployed, besides hidden ones: pack leaves them
// out, too.
var unpacked = []string{"__pycache__", "node_modules", "venv"}

// deployed reports whether the file at a path below root is deployed.
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

// watch sends the saves below root until ctx ends.
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
		defer func() { _ = w.Close() }() // nothing was written
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
					_ = add(w, root, event.Name) // it may be removed already
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

// add watches a folder and all folders below it.
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

// settle merges changes that closely follow each other into one save, until changes is
// closed. Changes are also merged into a save that was not received yet.
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
