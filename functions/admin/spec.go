// Package admin serves the platform's administrators: the traces of exceptions
// in all workspaces.
package admin

import (
	"time"

	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// name is the name of the function.
const name = "admin"

// Spec is the admin function.
var Spec = fn.Spec{
	Name:     name,
	Doc:      "Exception traces, for the platform's administrators.",
	Trigger:  fn.Trigger{HTTP: true},
	Needs:    fn.Needs{Table: fn.Writes, Blob: fn.Writes, Folders: []string{httpapi.TraceFolder}},
	MemoryMB: 256,
	Timeout:  29 * time.Second,
	Routes:   routes,
}
