// Package artifacts is the function that receives code: an upload in parts,
// directly to the object store. Its completion checks the zip, registers the
// flow version and deploys it.
package artifacts

import (
	"time"

	"millrace/shared/web/fn"
)

// name is the name of the function.
const name = "artifacts"

// Spec is the artifacts function.
var Spec = fn.Spec{
	Name:     name,
	Doc:      "Takes in artifacts in parts, registers their flow version and deploys it.",
	Trigger:  fn.Trigger{HTTP: true},
	Needs:    fn.Needs{Table: fn.Writes, Blob: fn.Writes, Folders: []string{"artifacts", "specs"}},
	MemoryMB: 1024, // hashing an artifact is bound by CPU, which depends on memory
	Timeout:  29 * time.Second,
	Routes:   routes,
}
