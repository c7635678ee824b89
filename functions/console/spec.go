// Package console serves pages for browsers: the description of the whole API,
// as a document and as a page, and the page at which a user approves the
// authorization of a device. It also handles requests that match no
// operation.
package console

import (
	"time"

	"millrace/shared/web/fn"
)

// name is the name of the function.
const name = "console"

// Spec is the console function.
var Spec = fn.Spec{
	Name:     name,
	Doc:      "Pages: the description of the API, the approval of devices, and the answer to requests that match no operation.",
	Trigger:  fn.Trigger{HTTP: true, Unmatched: true},
	MemoryMB: 256,
	Timeout:  10 * time.Second,
	Routes:   routes,
}
