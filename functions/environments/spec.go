// Package environments is the function that keeps environments and their
// variables, compares them, and promotes from one to another.
package environments

import (
	"time"

	"millrace/shared/run/registry"
	"millrace/shared/web/fn"
)

// name is the name of the function.
const name = "environments"

// Spec describes the function.
var Spec = fn.Spec{
	Name:     name,
	Doc:      "Keeps environments and their variables, compares them, and promotes from one to another.",
	Trigger:  fn.Trigger{HTTP: true},
	Needs:    fn.Needs{Table: fn.Writes, Blob: fn.Writes, Folders: []string{registry.VariableFolder}},
	MemoryMB: 512,
	Timeout:  29 * time.Second,
	Routes:   routes,
}
