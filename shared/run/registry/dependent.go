package registry

import (
	"context"
	"fmt"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

// Dependent is something that prevents the deletion of a flow: an enabled
// deployment, schedule or sensor. Its owner writes it with [Depend] and removes
// it with [Release], in the transaction that enables or disables it.
type Dependent struct {
	table.Key
	Kind  string       `table:"kind"` // such as deployment, schedule, sensor
	ID    string       `table:"id"`
	Since clock.Millis `table:"since"`
}

const dependentPrefix = "dep#"

func dependentKey(org, flow, kind, id string) table.Key {
	return table.Key{PK: flowPK(org, flow), SK: dependentPrefix + kind + "#" + id}
}

// Depend returns the two writes that make kind/id a dependent of the flow. The
// second updates the flow's head: it fails its transaction if the flow was
// deleted meanwhile, and it fails a deletion that did not see the dependent. A
// transaction can contain one such update per flow.
func Depend(head Head, kind, id string, now clock.Millis) []table.Write {
	return []table.Write{
		putDependent(head.OrgID, head.FlowName, kind, id, now),
		table.Update{
			Key: headKey(head.OrgID, head.FlowName),
			Do:  []table.Action{table.Add("rev", 1)},
			If:  table.Eq("incarnation", head.Incarnation),
		},
	}
}

func putDependent(org, flow, kind, id string, now clock.Millis) table.Write {
	return table.Put{Item: Dependent{Key: dependentKey(org, flow, kind, id), Kind: kind, ID: id, Since: now}}
}

// Release returns the write that removes a dependent. It does not fail if there
// is none.
func Release(org, flow, kind, id string) table.Write {
	return table.Delete{Key: dependentKey(org, flow, kind, id)}
}

// maxNamed is the number of dependents named in an error.
const maxNamed = 20

// Dependents returns the dependents of a flow, by kind and id, at most limit.
func Dependents(ctx context.Context, t table.Table, org, flow string, limit int) ([]Dependent, error) {
	q := table.Query{PK: flowPK(org, flow), Range: table.Prefix(dependentPrefix), Limit: limit, Consistent: true}
	page, err := t.Query(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("list dependents of flow %s: %w", flow, err)
	}
	return table.Decode[Dependent](page.Items)
}

// inUse returns the 409 error that names the dependents, of which there is at
// least one.
func inUse(flow string, deps []Dependent) error {
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
	return errs.New(errs.Conflict, "Flow '%s' is in use by %s; disable or delete them first", flow, named)
}
