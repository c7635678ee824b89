// Package examples holds flows to begin with, one a directory, as they are
// uploaded. The demo runs them.
package examples

import (
	"embed"
	"io/fs"
)

//go:embed etl/*.py flaky/*.py
var files embed.FS

// Flows returns the directories: etl, flaky.
func Flows() fs.FS { return files }
