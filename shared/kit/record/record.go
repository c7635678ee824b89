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

// Made has the fields common to all records. Embed it in a record that is never
// changed, and [Meta] in one that is.
type Made struct {
	table.Key `json:"-"`
	// Revision identifies this state of the record. A record that was stored
	// before revisions existed has none.
	Revision  table.Value  `table:"revision,omitempty" json:"-"`
	CreatedAt clock.Millis `table:"created_at" json:"created_at"`
	CreatedBy string       `table:"created_by" json:"created_by" doc:"Email of the user, or api-key:<key_id>"`
}

// Meta is Made for a record that can be changed.
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

// Audited is a record, or a pointer to one, with its own form in audit entries,
// instead of that by its tags.
type Audited interface{ Audited() any }

// Touch returns the action for an update that changes a record without a
// [Change]. A concurrent Change is then repeated instead of overwriting the
// update.
func Touch(now time.Time) table.Action { return table.Set("revision", ids.New(now)) }

// Kind describes a kind of record.
type Kind struct {
	// Folder names the records' partition of a workspace: <org>#<Folder>. A
	// record's id is its sort key.
	Folder string
	// At returns the key of a record that is stored elsewhere in its workspace. If
	// it is nil, none is. The records of such a kind are listed at <org>#<Folder>
	// of the index In, which contains only their keys.
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
