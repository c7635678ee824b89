// Package notifications is the function that keeps notification channels and
// alert rules, and tests rules.
package notifications

import (
	"time"

	"millrace/shared/web/fn"
)

// name is the name of the function.
const name = "notifications"

// Spec describes the function.
var Spec = fn.Spec{
	Name:     name,
	Doc:      "Keeps notification channels and alert rules, and sends the messages that test rules.",
	Trigger:  fn.Trigger{HTTP: true},
	Needs:    fn.Needs{Table: fn.Writes, Vault: true, Mail: true, Links: true},
	MemoryMB: 256,
	Timeout:  29 * time.Second,
	Routes:   routes,
}
