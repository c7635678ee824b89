// Package auth serves the caller's own identity and the workspace's API keys.
package auth

import (
	"time"

	"millrace/shared/web/fn"
)

// name is the function's.
const name = "auth"

// Spec is the auth function.
var Spec = fn.Spec{
	Name:     name,
	Doc:      "API keys, and who the caller is.",
	Trigger:  fn.Trigger{HTTP: true},
	Needs:    fn.Needs{Table: fn.Writes, Identity: true},
	MemoryMB: 256,
	Timeout:  29 * time.Second,
	Routes:   routes,
}
