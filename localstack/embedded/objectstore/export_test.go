package objectstore

import "os"

// OnSync replaces what makes a file durable and returns how to undo it.
func OnSync(sync func(*os.File) error) (undo func()) {
	before := syncFile
	syncFile = sync
	return func() { syncFile = before }
}
