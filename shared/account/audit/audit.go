// Package audit builds the entries that every mutation writes: who changed
// what, from where, with the state before and after.
package audit

import (
	"context"
	"encoding/json"
	"time"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
)

// Change is one mutation.
type Change struct {
	Action       string // verb, e.g. "create", "update", "delete", "login"
	ResourceType string // e.g. "schedule"
	ResourceID   string
	// Before and After are snapshots, nil if there is none. Struct fields tagged
	// secret:"true" are omitted at any depth.
	Before, After any
	Metadata      map[string]any // further details
}

// Record is a stored entry. Its sort key is its id, a ULID of its creation
// time; [Record.Place] sets the other keys.
type Record struct {
	table.Key
	table.ListEntries

	OrgID        string `table:"org_id"`
	Action       string `table:"action"`
	ResourceType string `table:"resource_type"`
	ResourceID   string `table:"resource_id"`
	ActorEmail   string `table:"actor_email,omitempty"`
	KeyID        string `table:"key_id,omitempty"` // of the API key that made the change
	IP           string `table:"ip_address,omitempty"`
	RequestID    string `table:"request_id,omitempty"`
	Before       string `table:"before_json,omitempty"` // JSON object
	After        string `table:"after_json,omitempty"`  // JSON object
	Metadata     string `table:"metadata,omitempty"`    // JSON object
	// Expires, in Unix seconds, is set when the entry's day leaves the log: it is
	// exported by then, and its entries are shown no more.
	Expires int64 `table:"ttl,omitempty"`
}

// ID returns the entry's id. Ids sort by time; the order within a millisecond
// is random.
func (r *Record) ID() string { return r.SK }

// EventTime returns "<RFC 3339, milliseconds>#<id>": unique, and in the order
// of ids.
func (r *Record) EventTime() string {
	at, _ := ids.Time(r.ID())
	return clock.Format(at) + "#" + r.ID()
}

// Entry returns the write of an entry, which belongs in the same transaction as
// the change. The caller's workspace, email, key, address and request come from
// ctx.
func Entry(ctx context.Context, now time.Time, c Change) table.Put {
	return EntryFor(ctx, tenant.From(ctx).OrgID, now, c)
}

// EntryFor is Entry for a workspace other than the caller's: one that was just
// created, or one that the service itself acts in.
func EntryFor(ctx context.Context, org string, now time.Time, c Change) table.Put {
	p, r := tenant.From(ctx), tenant.RequestFrom(ctx)
	record := Record{
		Key:          table.Key{SK: ids.New(now)},
		OrgID:        org,
		Action:       cut(c.Action, maxName),
		ResourceType: cut(c.ResourceType, maxName),
		ResourceID:   cut(c.ResourceID, maxID),
		ActorEmail:   cut(p.Email, maxName),
		KeyID:        cut(p.KeyID, maxName),
		IP:           cut(r.IP, maxName),
		RequestID:    cut(r.ID, maxName),
		Before:       snapshot(c.Before),
		After:        snapshot(c.After),
	}
	if len(c.Metadata) > 0 {
		record.Metadata = snapshot(c.Metadata)
	}
	record.Place()
	return table.Put{Item: record, If: table.IsNew()}
}

// JSON returns a stored snapshot or metadata as JSON, or null for none.
func JSON(stored string) json.RawMessage {
	if stored == "" {
		return json.RawMessage("null")
	}
	return json.RawMessage(stored)
}
