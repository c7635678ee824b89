// Package orgs serves workspaces, their members and roles.
package orgs

import (
	"time"

	"millrace/shared/web/fn"
)

// name is the name of the function.
const name = "orgs"

// Spec is the orgs function.
var Spec = fn.Spec{
	Name:     name,
	Doc:      "Workspaces of the caller, their members and roles.",
	Trigger:  fn.Trigger{HTTP: true},
	Needs:    fn.Needs{Table: fn.Writes, Identity: true},
	MemoryMB: 256,
	Timeout:  29 * time.Second,
	Routes:   routes,
}
