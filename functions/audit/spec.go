// Package audit serves the audit log of a workspace, and makes it tamper
// evident: a digest of each day's entries is signed and stored.
package audit

import (
	"time"

	"millrace/shared/account/audit"
	"millrace/shared/kit/due"
	"millrace/shared/web/fn"
)

// The names of the functions.
const (
	name       = "audit"
	digestName = "audit-digest"
)

// Spec is the function that serves the log. Its time-out leaves room for
// verifying a long one.
var Spec = fn.Spec{
	Name:     name,
	Doc:      "Lists the audit log and verifies it.",
	Trigger:  fn.Trigger{HTTP: true},
	Needs:    fn.Needs{Table: fn.Writes, Blob: fn.Reads, Signer: fn.Reads, Locked: fn.Reads},
	MemoryMB: 256,
	Timeout:  15 * time.Minute,
	Routes:   routes,
}

// DigestSpec is the function that digests and exports days that are over, and has
// the entries of old ones expire.
var DigestSpec = fn.Spec{
	Name:     digestName,
	Doc:      "Exports each day's audit entries and signs a digest of them; has those of exported days expire.",
	Trigger:  fn.Trigger{Due: []due.Kind{audit.Digesting}},
	Needs:    fn.Needs{Table: fn.Writes, Blob: fn.Writes, Folders: []string{audit.ExportFolder}, Signer: fn.Writes, Locked: fn.Writes},
	MemoryMB: 256,
	Timeout:  5 * time.Minute,
	Messages: digests,
}
