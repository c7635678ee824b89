// Package record stores the plain records of a domain: things of a workspace
// that users create, change, list and delete. A [Set] stores them with the
// times and authors of their creation and change, rejects a change of a stale
// version, and writes the audit entry of each change, with the state before and
// after, in the same transaction.
//
// A record is one struct that serves as item, view and audit snapshot: the
// table tag of a field says how it is stored, the json tag how it is shown and
// audited ("-": neither). A value sealed by the vault is never shown, by its
// type.
//
//	type Secret struct {
//		record.Meta
//		Name   string       `table:"name" json:"name"`
//		Sealed vault.Sealed `table:"sealed" json:"-"`
//	}
package record

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"millrace/shared/account/quota"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
)

// Made is what every record has besides its own fields: embed it in one that is
// never changed, and [Meta] in one that is.
type Made struct {
	table.Key `json:"-"`
	// Revision names this state of the record: no other state of it has the same. A
	// record that was stored before it had revisions has none.
	Revision  table.Value  `table:"revision,omitempty" json:"-"`
	CreatedAt clock.Millis `table:"created_at" json:"created_at"`
	CreatedBy string       `table:"created_by" json:"created_by" doc:"Email of the user, or api-key:<key_id>"`
}

// Meta is Made of a record that is changed.
type Meta struct {
	Made
	UpdatedAt clock.Millis `table:"updated_at" json:"updated_at"`
	UpdatedBy string       `table:"updated_by" json:"updated_by"`
}

func (m *Made) made() *Made                        { return m }
func (*Made) changed(clock.Millis, string)         {}
func (m *Meta) changed(at clock.Millis, by string) { m.UpdatedAt, m.UpdatedBy = at, by }

// stamped is a pointer to a record.
type stamped[T any] interface {
	*T
	made() *Made
	changed(at clock.Millis, by string)
}

// Audited is a record, or a pointer to one, that says itself what audit entries
// show of it; nothing else is read from its tags.
type Audited interface{ Audited() any }

// Touch is what an update does besides that changes a record without being a
// [Change] of it, so that a Change under way does not overwrite what it did: it
// begins anew.
func Touch(now time.Time) table.Action { return table.Set("revision", ids.New(now)) }

// Kind describes a kind of record.
type Kind struct {
	// Folder names the records' partition of a workspace: <org>#<Folder>. A
	// record's id is its sort key.
	Folder string
	// At is the key of a record that is stored elsewhere in its workspace; nil: none
	// is. The records of such a kind stand in <org>#<Folder> of the index In, which
	// has their keys alone.
	At func(org, id string) table.Key
	In table.Index
	// Type is the resource type of audit entries, a singular noun: "secret".
	Type string
	// Noun is the name of a record in messages: "Secret".
	Noun string
	// Limit bounds the number of records; "" means unlimited.
	Limit quota.Name
	// Name returns the name for an id in messages and audit entries; nil means the
	// id itself.
	Name func(id string) string
}

func (k Kind) name(id string) string {
	if k.Name == nil {
		return id
	}
	return k.Name(id)
}

// check panics on a record type with a field that has no json tag.
func check(t reflect.Type) {
	for f := range t.Fields() {
		switch {
		case f.Anonymous && f.Tag.Get("json") == "" && f.Type.Kind() == reflect.Struct:
			check(f.Type)
		case !f.IsExported():
		case f.Tag.Get("json") == "":
			panic(fmt.Sprintf("record: field %s of %s has no json tag: say how it is shown, or \"-\"", f.Name, t))
		case strings.HasPrefix(f.Tag.Get("json"), ","):
			panic(fmt.Sprintf("record: field %s of %s has no name in JSON", f.Name, t))
		}
	}
}
