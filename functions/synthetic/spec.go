// Package synthetic is the function that starts a run every minute as a user would,
// by the API with a key, and measures whether it succeeds: an outage is noticed
// without users. It is only in deployments that ask for it.
package synthetic

import (
	"time"

	"millrace/shared/web/fn"
)

// Deployment is the deployment that it runs, in the workspace of the key.
const Deployment = "synthetic"

// Spec is the synthetic-run function.
var Spec = fn.Spec{
	Name:     "synthetic-run",
	Doc:      "Starts a run by the API every minute, as a user would, and measures whether it succeeds.",
	Trigger:  fn.Trigger{Probe: true},
	Needs:    fn.Needs{Links: true, APIKey: true},
	MemoryMB: 256,
	Timeout:  time.Minute,
	Handle:   handler,
}
