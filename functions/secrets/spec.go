// Package secrets is the function that manages secrets. It is the model of a
// plain domain: spec.go describes the function, api.go its operations and
// bodies, service.go its rules; a domain that stores more than records has a
// store.go.
package secrets

import (
	"time"

	"millrace/shared/web/fn"
)

// name is the name of the function.
const name = "secrets"

// Spec describes the function.
var Spec = fn.Spec{
	Name:     name,
	Doc:      "Keeps secrets, for tasks to read.",
	Trigger:  fn.Trigger{HTTP: true},
	Needs:    fn.Needs{Table: fn.Writes, Vault: true},
	MemoryMB: 256,
	Timeout:  29 * time.Second,
	Routes:   routes,
}
