package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
)

// Head is a flow: its latest version and its incarnation.
type Head struct {
	table.Key
	OrgID         string            `table:"org_id"`
	FlowName      string            `table:"flow_name"`
	LatestVersion string            `table:"latest"`
	Seq           int               `table:"seq"`                   // of the newest registration, from 1
	Rev           int64             `table:"rev"`                   // incremented by every change that a deletion must not miss
	Incarnation   string            `table:"incarnation"`           // ULID of the flow's first registration
	Versions      int               `table:"versions"`              // number of registered versions
	Description   string            `table:"description,omitempty"` // of the latest version
	Tags          map[string]string `table:"tags,omitempty"`        // of the latest version
	CreatedAt     clock.Millis      `table:"created_at"`
	UpdatedAt     clock.Millis      `table:"updated_at"`
}

// Version is one registered version of a flow. It never changes.
type Version struct {
	table.Key
	OrgID           string            `table:"org_id"`
	FlowName        string            `table:"flow_name"`
	FlowVersion     string            `table:"flow_version"`
	Seq             int               `table:"seq"` // order of registration within the flow
	Incarnation     string            `table:"incarnation"`
	SpecHash        string            `table:"spec_hash"` // for [LoadFlow]
	TaskCount       int               `table:"task_count"`
	ArtifactKey     string            `table:"artifact_key,omitempty"` // object key of the zip; empty if there is none
	CodeHash        string            `table:"code_hash,omitempty"`
	Description     string            `table:"description,omitempty"`
	DefaultExecutor string            `table:"default_executor"` // one of Executors
	ExecutionMode   string            `table:"execution_mode"`   // a tier's name
	Tags            map[string]string `table:"tags,omitempty"`
	DepPackageSlugs []string          `table:"dep_package_slugs,omitempty"`
	RegisteredAt    clock.Millis      `table:"registered_at"`
	RegisteredBy    string            `table:"registered_by"` // email or key id
}

const versionPrefix = "v#"

func headKey(org, flow string) table.Key { return table.Key{PK: org + "#flows", SK: flow} }

func flowPK(org, flow string) string { return org + "#flow#" + flow }

func versionKey(org, flow, version string) table.Key {
	return table.Key{PK: flowPK(org, flow), SK: versionPrefix + version}
}

// DraftKey returns the key of the flow's draft.
func DraftKey(org, flow string) table.Key { return table.Key{PK: flowPK(org, flow), SK: "draft"} }

// GetFlow returns a flow. Errors: errs.NotFound.
func GetFlow(ctx context.Context, t table.Table, org, flow string) (Head, error) {
	if !ValidName(flow) {
		return Head{}, noFlow(flow)
	}
	head, found, err := load[Head](ctx, t, headKey(org, flow))
	if err == nil && !found {
		err = noFlow(flow)
	}
	return head, err
}

// GetVersion returns a registered version, consistently. Errors: errs.NotFound.
func GetVersion(ctx context.Context, t table.Table, org, flow, version string) (Version, error) {
	head, v, err := readVersion(ctx, t, org, flow, version)
	switch {
	case err != nil:
		return Version{}, err
	case head == nil:
		return Version{}, noFlow(flow)
	case v == nil:
		return Version{}, noVersion(flow, version)
	}
	return *v, nil
}

// GetVersionIn is [GetVersion] with the variables of an environment, in the same
// request; nil: none are stored.
func GetVersionIn(ctx context.Context, t table.Table, org, flow, version, environment string) (Version, *VariableSet, error) {
	key := variablesKey(org, environment)
	head, v, more, err := readVersionAnd(ctx, t, org, flow, version, key)
	switch {
	case err != nil:
		return Version{}, nil, err
	case head == nil:
		return Version{}, nil, noFlow(flow)
	case v == nil:
		return Version{}, nil, noVersion(flow, version)
	case len(more) == 0:
		return *v, nil, nil
	}
	set := new(VariableSet)
	return *v, set, table.Unmarshal(more[0], set)
}

// readVersion reads a flow's head and one version together. Each is nil if it
// does not exist; a version is also nil if it belongs to an older incarnation.
func readVersion(ctx context.Context, t table.Table, org, flow, version string) (*Head, *Version, error) {
	head, v, _, err := readVersionAnd(ctx, t, org, flow, version)
	return head, v, err
}

// readVersionAnd is readVersion and what there is of further items.
func readVersionAnd(ctx context.Context, t table.Table, org, flow, version string, further ...table.Key) (*Head, *Version, []table.Item, error) {
	if !ValidName(flow) || !ValidName(version) {
		return nil, nil, nil, nil
	}
	hk, vk := headKey(org, flow), versionKey(org, flow, version)
	items, err := t.BatchGet(ctx, append([]table.Key{hk, vk}, further...), table.Consistent)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("read version %s of flow %s: %w", version, flow, err)
	}
	var head *Head
	var v *Version
	var more []table.Item
	for _, item := range items {
		switch item.Key() {
		case hk:
			head = new(Head)
			err = table.Unmarshal(item, head)
		case vk:
			v = new(Version)
			err = table.Unmarshal(item, v)
		default:
			more = append(more, item)
		}
		if err != nil {
			return nil, nil, nil, fmt.Errorf("read version %s of flow %s: %w", version, flow, err)
		}
	}
	if v != nil && (head == nil || v.Incarnation != head.Incarnation) {
		v = nil
	}
	return head, v, more, nil
}

// Latest returns the version registered last. Errors: errs.NotFound.
func Latest(ctx context.Context, t table.Table, org, flow string) (Version, error) {
	head, err := GetFlow(ctx, t, org, flow)
	if err != nil {
		return Version{}, err
	}
	return GetVersion(ctx, t, org, flow, head.LatestVersion)
}

// Versions returns all versions of a flow, newest registration first. Errors:
// errs.NotFound if the flow does not exist.
func Versions(ctx context.Context, t table.Table, org, flow string) (Head, []Version, error) {
	head, err := GetFlow(ctx, t, org, flow)
	if err != nil {
		return Head{}, nil, err
	}
	all, err := storedVersions(ctx, t, org, flow)
	if err != nil {
		return Head{}, nil, err
	}
	out := make([]Version, 0, len(all))
	for _, v := range all {
		if v.Incarnation == head.Incarnation {
			out = append(out, v)
		}
	}
	return head, newestFirst(out), nil
}

// ListFlows returns up to limit flows after the name after, in order of their
// names, and the name after which to continue, empty at the end.
func ListFlows(ctx context.Context, t table.Table, org, after string, limit int) ([]Head, string, error) {
	q := table.Query{PK: headKey(org, "").PK, Limit: limit, Consistent: true}
	if after != "" {
		q.Range = table.After(after)
	}
	page, err := t.Query(ctx, q)
	if err != nil {
		return nil, "", fmt.Errorf("list flows: %w", err)
	}
	heads, err := table.Decode[Head](page.Items)
	if err != nil || page.Next == "" || len(heads) == 0 {
		return heads, "", err
	}
	return heads, heads[len(heads)-1].FlowName, nil
}

// ListFlowsIn is like [ListFlows] for the flows that have a deployment in an
// environment. A page may have fewer than limit flows, even none, and yet a
// next one.
func ListFlowsIn(ctx context.Context, t table.Table, org, environment, after string, limit int) ([]Head, string, error) {
	q := table.Query{Index: table.ByBoth, PK: flowsIn(org, environment), Limit: 2 * limit}
	var names []string
	for {
		if after != "" {
			q.Range = table.After(after + "#~") // after all deployments of that flow
		}
		page, err := t.Query(ctx, q)
		if err != nil {
			return nil, "", fmt.Errorf("list flows of %s: %w", environment, err)
		}
		for _, item := range page.Items {
			flow, _, _ := strings.Cut(item["l4_sk"].Str(), "#")
			if flow == after {
				continue
			}
			if len(names) == limit {
				return headsOf(ctx, t, org, names, after)
			}
			names, after = append(names, flow), flow
		}
		if page.Next == "" {
			return headsOf(ctx, t, org, names, "")
		}
	}
}

// headsOf reads flows by name. Deleted flows are left out.
func headsOf(ctx context.Context, t table.Table, org string, names []string, next string) ([]Head, string, error) {
	keys := make([]table.Key, len(names))
	for i, name := range names {
		keys[i] = headKey(org, name)
	}
	heads, err := loadAll[Head](ctx, t, keys)
	return heads, next, err
}

// storedVersions reads all version items of a flow, of all incarnations.
func storedVersions(ctx context.Context, t table.Table, org, flow string) ([]Version, error) {
	var out []Version
	q := table.Query{PK: flowPK(org, flow), Range: table.Prefix(versionPrefix), Consistent: true}
	for item, err := range table.All(ctx, t, q) {
		if err != nil {
			return nil, fmt.Errorf("list versions of flow %s: %w", flow, err)
		}
		var v Version
		if err := table.Unmarshal(item, &v); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func newestFirst(vs []Version) []Version {
	slices.SortFunc(vs, func(a, b Version) int { return cmp.Compare(b.Seq, a.Seq) })
	return vs
}
