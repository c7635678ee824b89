// Package artifacts is the function that takes in code: an upload in parts,
// straight to the object store, whose completion checks the zip, registers the
// flow version and deploys it.
package artifacts

import (
	"time"

	"millrace/shared/web/fn"
)

// name is the function's.
const name = "artifacts"

// Spec describes the function.
var Spec = fn.Spec{
	Name:     name,
	Doc:      "Takes in artifacts in parts, registers their flow version and deploys it.",
	Trigger:  fn.Trigger{HTTP: true},
	Needs:    fn.Needs{Table: fn.Writes, Blob: fn.Writes, Folders: []string{"artifacts", "specs"}},
	MemoryMB: 1024, // hashing an artifact is bound by CPU, which comes with memory
	Timeout:  29 * time.Second,
	Routes:   routes,
}
