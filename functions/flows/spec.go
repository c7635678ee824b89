// Package flows is the function that registers flows, shows and deletes their
// versions, and stores the draft of each.
package flows

import (
	"time"

	"millrace/shared/web/fn"
)

// name is the name of the function.
const name = "flows"

// Spec is the flows function.
var Spec = fn.Spec{
	Name:     name,
	Doc:      "Registers flows, lists and deletes them, and keeps their drafts.",
	Trigger:  fn.Trigger{HTTP: true},
	Needs:    fn.Needs{Table: fn.Writes, Blob: fn.Writes, Folders: []string{"drafts", "specs"}},
	MemoryMB: 512,
	Timeout:  29 * time.Second,
	Routes:   routes,
}
