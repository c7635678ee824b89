package registry

import (
	"context"
	"fmt"
	"strings"
	"time"

	"millrace/shared/kit/record"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

// Dependent is something that prevents the deletion of a flow or an environment: a
// deployment, schedule or sensor. Its owner writes it with [Depend] or
// [DependOnEnvironment] and removes it with [Release] or [ReleaseEnvironment], in
// the transaction that enables or disables it.
type Dependent struct {
	table.Key
	Kind  string       `table:"kind"` // such as deployment, schedule, sensor
	ID    string       `table:"id"`
	Since clock.Millis `table:"since"`
}

const dependentPrefix = "dep#"

// dependentKey is a dependent's key in the partition of what it depends on.
func dependentKey(pk, kind, id string) table.Key {
	return table.Key{PK: pk, SK: dependentPrefix + kind + "#" + id}
}

// Depend returns the two writes that make kind/id a dependent of the flow. The
// second updates the flow's head: it fails its transaction if the flow was
// deleted meanwhile, and it fails a deletion that did not see the dependent. A
// transaction can contain one such update per flow. Of a flow that is not
// registered, whose head has only its name, it fails if the flow was registered
// meanwhile.
func Depend(head Head, kind, id string, now clock.Millis) []table.Write {
	if head.Incarnation == "" {
		return []table.Write{
			putDependent(flowPK(head.OrgID, head.FlowName), kind, id, now),
			table.Check{Key: headKey(head.OrgID, head.FlowName), If: table.IsNew()},
		}
	}
	return []table.Write{
		putDependent(flowPK(head.OrgID, head.FlowName), kind, id, now),
		table.Update{
			Key: headKey(head.OrgID, head.FlowName),
			Do:  []table.Action{table.Add("rev", 1)},
			If:  table.Eq("incarnation", head.Incarnation),
		},
	}
}

// DependOnEnvironment is [Depend] of an environment; default cannot be deleted, so
// that it has no dependents.
func DependOnEnvironment(e *Environment, kind, id string, now time.Time) []table.Write {
	if e.Name == DefaultEnvironment {
		return nil
	}
	org := strings.TrimSuffix(e.PK, "#"+environmentKind.Folder)
	return []table.Write{
		putDependent(environmentPK(org, e.Name), kind, id, clock.ToMillis(now)),
		//guard:environment/use-meanwhile drop
		table.Update{Key: e.Key, Do: []table.Action{record.Touch(now)}, If: table.Eq("incarnation", e.Incarnation)},
	}
}

func putDependent(pk, kind, id string, now clock.Millis) table.Write {
	return table.Put{Item: Dependent{Key: dependentKey(pk, kind, id), Kind: kind, ID: id, Since: now}}
}

// Release returns the write that removes a dependent. It does not fail if there
// is none.
func Release(org, flow, kind, id string) table.Write {
	return table.Delete{Key: dependentKey(flowPK(org, flow), kind, id)}
}

// ReleaseEnvironment is [Release] of an environment, nothing for default.
func ReleaseEnvironment(org, environment, kind, id string) []table.Write {
	if environment == DefaultEnvironment {
		return nil
	}
	return []table.Write{table.Delete{Key: dependentKey(environmentPK(org, environment), kind, id)}}
}

// maxNamed is the number of dependents named in an error.
const maxNamed = 20

// Dependents returns the dependents of a flow, by kind and id, at most limit.
func Dependents(ctx context.Context, t table.Table, org, flow string, limit int) ([]Dependent, error) {
	return dependents(ctx, t, flowPK(org, flow), limit)
}

func dependents(ctx context.Context, t table.Table, pk string, limit int) ([]Dependent, error) {
	q := table.Query{PK: pk, Range: table.Prefix(dependentPrefix), Limit: limit, Consistent: true}
	page, err := t.Query(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("list dependents of %s: %w", pk, err)
	}
	return table.Decode[Dependent](page.Items)
}

// inUse returns the 409 error that names the dependents, of which there is at
// least one, and says what to do about them first.
func inUse(what, name string, deps []Dependent, first string) error {
	named := ""
	for i, d := range deps {
		if i == maxNamed {
			named += " and more"
			break
		}
		if i > 0 {
			named += ", "
		}
		named += d.Kind + " '" + d.ID + "'"
	}
	return errs.New(errs.Conflict, "%s '%s' is in use by %s; %s first", what, name, named, first)
}
