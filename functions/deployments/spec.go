// Package deployments is the function that manages deployments: names that
// select a flow version, an environment and a runtime tier for runs.
package deployments

import (
	"time"

	"millrace/shared/web/fn"
)

// name is the name of the function.
const name = "deployments"

// Spec is the deployments function.
var Spec = fn.Spec{
	Name:     name,
	Doc:      "Makes, changes, rolls back and deletes deployments.",
	Trigger:  fn.Trigger{HTTP: true},
	Needs:    fn.Needs{Table: fn.Writes, Blob: fn.Reads},
	MemoryMB: 512,
	Timeout:  29 * time.Second,
	Routes:   routes,
}
