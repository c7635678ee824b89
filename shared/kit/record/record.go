// Package record keeps the plain records of a domain: things of a workspace that
// are made, changed, listed and deleted by whoever may. A [Set] stores them, stamps
// who made and changed them and when, refuses a change of what was changed
// meanwhile, and writes the audit entry of each change, with the state before and
// after, in the change's own transaction.
//
// A record is one struct, its item, its view and its audit snapshot at once: the
// table tag of a field says how it is stored, the json tag how it is shown and
// audited ("-": neither). What the vault sealed shows nowhere, by its type.
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

	"millrace/shared/account/quota"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
)

// Meta is what every record has besides its own fields: embed it.
type Meta struct {
	table.Key `json:"-"`
	Revision  int64        `table:"revision" json:"-"` // rises with each change
	CreatedAt clock.Millis `table:"created_at" json:"created_at"`
	CreatedBy string       `table:"created_by" json:"created_by" doc:"Email of the user, or api-key:<key_id>"`
	UpdatedAt clock.Millis `table:"updated_at" json:"updated_at"`
	UpdatedBy string       `table:"updated_by" json:"updated_by"`
}

func (m *Meta) meta() *Meta { return m }

// stamped is a pointer to a record.
type stamped[T any] interface {
	*T
	meta() *Meta
}

// Kind describes a kind of record.
type Kind struct {
	// Folder names the records' partition of a workspace: <org>#<Folder>. A
	// record's id is its sort key.
	Folder string
	// Type is the resource type of audit entries, a singular noun: "secret".
	Type string
	// Noun is what messages call a record: "Secret".
	Noun string
	// Limit bounds how many there are; empty: nothing does.
	Limit quota.Name
	// Name is what messages and audit entries call the record of an id; nil: the id.
	Name func(id string) string
}

func (k Kind) name(id string) string {
	if k.Name == nil {
		return id
	}
	return k.Name(id)
}

// check panics on a record type whose fields do not all say how they are shown.
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
