// Package execution describes the executors and tiers for tasks.
package execution

import (
	"time"

	"millrace/shared/web/fn"
)

// name is the name of the function.
const name = "execution"

// Spec is the execution function.
var Spec = fn.Spec{
	Name:     name,
	Doc:      "The executors that this deployment offers.",
	Trigger:  fn.Trigger{HTTP: true},
	Needs:    fn.Needs{Table: fn.Writes, Description: true},
	MemoryMB: 256,
	Timeout:  29 * time.Second,
	Routes:   routes,
}
