// Package flows is the function that registers flows, shows their versions,
// deletes them, and keeps the draft under edit of each.
package flows

import (
	"time"

	"millrace/shared/web/fn"
)

// name is the function's.
const name = "flows"

// Spec describes the function.
var Spec = fn.Spec{
	Name:     name,
	Doc:      "Registers flows, lists and deletes them, and keeps their drafts.",
	Trigger:  fn.Trigger{HTTP: true},
	Needs:    fn.Needs{Table: fn.Writes, Blob: fn.Writes, Folders: []string{"drafts", "specs"}},
	MemoryMB: 512,
	Timeout:  29 * time.Second,
	Routes:   routes,
}
