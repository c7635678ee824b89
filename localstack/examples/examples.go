// Package examples contains example flows, one in each directory, in the form
// in which they are uploaded. The demo runs them.
package examples

import (
	"embed"
	"io/fs"
)

//go:embed etl/*.py flaky/*.py
var files embed.FS

// Flows returns the directories: etl, flaky.
func Flows() fs.FS { return files }
