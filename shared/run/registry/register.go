package registry

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"millrace/shared/account/quota"
	"millrace/shared/platform/budget"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/tasktype"
)

// Registration is a version to register. [Registration.Parse] checks it.
type Registration struct {
	FlowName, FlowVersion string
	Flow                  *flowspec.Flow // set by Parse
	ArtifactKey           string
	CodeHash              string
	Description           string
	DefaultExecutor       string // one of Executors
	ExecutionMode         string // a tier's name
	Tags                  map[string]string
	DepPackageSlugs       []string
	Kinds                 flowspec.Kinds // of the deployment's tasks; nil: tasktype.Kinds
	// CodeOnly means that an existing version has the same content if spec and
	// code are the same; the other fields are the deployment's own.
	CodeOnly bool
	// Unuploaded: the code is not there yet, so that nothing of it is checked or
	// compared. It can only be checked: see [Store.Check].
	Unuploaded bool
}

// Parse parses the flow_spec and returns all violations of it and of the other
// fields as an errs.Unprocessable, or an error if ctx has ended or the check
// had to wait too long. A flow with a Python task needs an artifact.
func (r *Registration) Parse(ctx context.Context, spec json.RawMessage) error {
	var faults []errs.Detail
	if ReservedVersion(r.FlowVersion) {
		faults = append(faults, fault(errs.Body("flow_version"), r.FlowVersion, "this word is reserved: paths give it a meaning of its own"))
	}
	faults = append(faults, CheckTags(errs.Body("tags"), r.Tags)...)
	faults = append(faults, CheckSlugs(errs.Body("dep_package_slugs"), r.DepPackageSlugs)...)
	ctx, end := budget.WithWaitLimit(ctx)
	defer end()
	kinds := r.Kinds
	if kinds == nil {
		kinds = tasktype.Kinds()
	}
	flow, invalid := flowspec.Parse(ctx, spec, kinds)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	faults = append(faults, invalid...)
	if r.Flow = flow; flow != nil && r.ArtifactKey == "" && !r.Unuploaded && needsCode(flow) {
		faults = append(faults, errs.Detail{
			Type: "missing", Loc: errs.Body("artifact_store_uri"),
			Msg: "a flow with Python tasks needs an uploaded artifact: initiate and complete an upload, or name one",
		})
	}
	if len(faults) > 0 {
		return errs.Validation(faults...)
	}
	return nil
}

// needsCode reports whether a task's function comes from an artifact.
func needsCode(flow *flowspec.Flow) bool {
	return flow.OnFailure != nil && flow.OnFailure.Entrypoint != "" ||
		slices.ContainsFunc(flow.Tasks, func(t flowspec.Task) bool { return t.Entrypoint != "" })
}

// store stores the spec, before the version that refers to it.
func (r *Registration) store(ctx context.Context, s Store) error {
	return putSpec(ctx, s.Table, s.Blob, tenantOf(ctx), r.Flow.Hash(), r.Flow.Canonical())
}

// matches reports whether a registered version has the registration's content.
// Code is compared by hash if both have one, otherwise by artifact.
func (r *Registration) matches(v *Version) bool {
	if r.Unuploaded {
		return r.Flow.Hash() == v.SpecHash
	}
	code := r.ArtifactKey == v.ArtifactKey
	if r.CodeHash != "" && v.CodeHash != "" {
		code = r.CodeHash == v.CodeHash && (r.ArtifactKey == "") == (v.ArtifactKey == "")
	}
	if !code || r.Flow.Hash() != v.SpecHash {
		return false
	}
	return r.CodeOnly || r.Description == v.Description && r.DefaultExecutor == v.DefaultExecutor &&
		r.ExecutionMode == v.ExecutionMode && maps.Equal(r.Tags, v.Tags) &&
		slices.Equal(r.DepPackageSlugs, v.DepPackageSlugs)
}

// find reads the version and the flow's head, nil where they are not there. Errors:
// errs.Conflict if the version is there with other content.
func (r *Registration) find(ctx context.Context, t table.Table, org string) (*Head, *Version, error) {
	head, have, err := readVersion(ctx, t, org, r.FlowName, r.FlowVersion)
	if err == nil && have != nil && !r.matches(have) {
		err = errs.New(errs.Conflict, "Flow '%s' version '%s' is already registered with other content", r.FlowName, r.FlowVersion)
	}
	return head, have, err
}

// version is a new version, but for what it has of its flow's head.
func (r *Registration) version(org, actor string, now clock.Millis) Version {
	return Version{
		Key: versionKey(org, r.FlowName, r.FlowVersion), OrgID: org, FlowName: r.FlowName, FlowVersion: r.FlowVersion,
		SpecHash: r.Flow.Hash(), TaskCount: len(r.Flow.Tasks),
		ArtifactKey: r.ArtifactKey, CodeHash: r.CodeHash, Description: r.Description,
		DefaultExecutor: r.DefaultExecutor, ExecutionMode: r.ExecutionMode,
		Tags: r.Tags, DepPackageSlugs: r.DepPackageSlugs, RegisteredAt: now, RegisteredBy: actor,
	}
}

// register plans the version and the flow's head. Errors: those of [Registration.find].
func (p *plan) register(r *Registration) error {
	head, have, err := r.find(p.ctx, p.Table, p.org)
	if err != nil {
		return err
	}
	p.parsed = r.Flow
	if have != nil {
		p.out.Version, p.out.Latest = *have, head.LatestVersion
		return nil
	}
	now := clock.ToMillis(p.now)
	if head == nil {
		if err := p.room(quota.Flows, headKey(p.org, "").PK); err != nil {
			return err
		}
		p.head = &Head{
			Key: headKey(p.org, r.FlowName), OrgID: p.org, FlowName: r.FlowName, LatestVersion: r.FlowVersion,
			Seq: 1, Rev: 1, Incarnation: ids.New(p.now), Versions: 1,
			Description: r.Description, Tags: r.Tags, CreatedAt: now, UpdatedAt: now,
		}
		p.add(table.Put{Item: *p.head, If: table.IsNew()})
	} else {
		if err := p.Quota.Hold(quota.FlowVersions, int64(head.Versions)); err != nil {
			return err
		}
		p.head = new(*head)
		p.head.Seq++
		p.add(table.Update{
			Key: head.Key,
			Do: []table.Action{
				table.Set("latest", r.FlowVersion), table.Set("seq", p.head.Seq), table.Set("updated_at", now),
				table.Set("description", r.Description), table.Set("tags", orEmpty(r.Tags)),
				table.Add("versions", 1), table.Add("rev", 1),
			},
			If: table.And(table.Eq("incarnation", head.Incarnation), table.Eq("seq", head.Seq)),
		})
	}
	v := r.version(p.org, p.actor, now)
	v.Seq, v.Incarnation = p.head.Seq, p.head.Incarnation
	p.add(table.Put{Item: v, If: table.Or(table.IsNew(), table.Ne("incarnation", v.Incarnation))})
	p.out.Version, p.out.Registered, p.out.Latest = v, true, v.FlowVersion
	return nil
}
