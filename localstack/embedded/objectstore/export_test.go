package objectstore

import "os"

// OnSync replaces syncFile and returns how to restore it.
func OnSync(sync func(*os.File) error) (undo func()) {
	before := syncFile
	syncFile = sync
	return func() { syncFile = before }
}
