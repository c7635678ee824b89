package registry

import (
	"encoding/json"

	"millrace/shared/account/quota"
	"millrace/shared/platform/budget"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
)

// Deploy changes one deployment.
type Deploy struct {
	Name string
	// Next returns the deployment as it shall be, given what it is (nil if there
	// is none): the fields a user sets. It may be called several times.
	Next func(now *Deployment) (Deployment, error)
	// Chosen: the flow version was chosen earlier, so that its absence is a
	// conflict (409) and not a 404.
	Chosen bool
	Always bool // a change that changes nothing is a deployment_version too
}

const deploymentKind = "deployment"

// deploy plans the deployment, its history and its hold on the flow. Errors:
// those of Next; errs.NotFound or errs.Conflict without the flow version;
// errs.Unprocessable for parameters that the flow's schema refuses.
func (p *plan) deploy(d *Deploy) error {
	old, found, err := load[Deployment](p.ctx, p.Table, deploymentKey(p.org, d.Name))
	if err != nil {
		return err
	}
	if found {
		p.out.Before = &old
	}
	next, err := d.Next(p.out.Before)
	if err != nil {
		return err
	}
	head, err := p.versionOf(&next)
	if err != nil {
		if d.Chosen && errs.CodeOf(err) == errs.NotFound {
			return errs.New(errs.Conflict, "Flow '%s' version '%s' is no longer registered", next.FlowName, next.FlowVersion)
		}
		return err
	}
	if err := p.checkParameters(next.Parameters); err != nil {
		return err
	}
	if found && !d.Always && old.Same(&next) {
		p.out.Deployment = &old
		return nil
	}
	if !found {
		if err := p.room(quota.Deployments, deploymentKey(p.org, "").PK); err != nil {
			return err
		}
	}
	p.fill(&next, d.Name)
	put := table.Put{Item: next, If: table.IsNew()}
	if found {
		put.If = unchanged(&old)
	}
	kept := next // the history has no place in the lists
	kept.Key, kept.ListEntries = historyKey(p.org, d.Name, next.DeploymentVersion), table.ListEntries{}
	p.add(put, table.Put{Item: kept})
	p.hold(&next, head)
	p.out.Deployment, p.out.Deployed = &next, true
	return nil
}

// unchanged is the condition that the deployment is what was read.
func unchanged(d *Deployment) table.Cond {
	return table.And(table.Eq("incarnation", d.Incarnation), table.Eq("deployment_version", d.DeploymentVersion))
}

// versionOf sets the outcome's version to the one the deployment selects.
func (p *plan) versionOf(d *Deployment) (*Head, error) {
	if v := p.out.Version; v.FlowName == d.FlowName && v.FlowVersion == d.FlowVersion && p.head != nil {
		return p.head, nil
	}
	head, v, err := readVersion(p.ctx, p.Table, p.org, d.FlowName, d.FlowVersion)
	switch {
	case err != nil:
		return nil, err
	case head == nil:
		return nil, noFlow(d.FlowName)
	case v == nil:
		return nil, noVersion(d.FlowName, d.FlowVersion)
	}
	p.out.Version, p.out.Latest = *v, head.LatestVersion
	return head, nil
}

// checkParameters checks a deployment's parameters against the schema of its
// flow; what is required may be missing, for a run may bring it.
func (p *plan) checkParameters(params map[string]json.RawMessage) error {
	if len(params) == 0 {
		return nil
	}
	flow, err := LoadFlow(p.ctx, p.Table, p.Blob, p.org, p.out.Version.SpecHash)
	if err != nil {
		return err
	}
	ctx, end := budget.WithPatience(p.ctx)
	defer end()
	return flow.CheckDefaults(ctx, params)
}

// fill sets what the registry itself decides.
func (p *plan) fill(d *Deployment, name string) {
	now := clock.ToMillis(p.now)
	d.Key, d.OrgID, d.Name = deploymentKey(p.org, name), p.org, name
	d.UpdatedAt, d.UpdatedBy = now, p.actor
	if old := p.out.Before; old != nil {
		d.DeploymentVersion, d.Incarnation = old.DeploymentVersion+1, old.Incarnation
		d.CreatedAt, d.CreatedBy = old.CreatedAt, old.CreatedBy
	} else {
		d.DeploymentVersion, d.Incarnation = 1, ids.New(p.now)
		d.CreatedAt, d.CreatedBy = now, p.actor
	}
	d.ListEntries = d.entries()
}

// hold moves the deployment's hold on its flow: an active one keeps the flow
// from being deleted.
func (p *plan) hold(next *Deployment, head *Head) {
	old := p.out.Before
	held, holds := old != nil && old.Status == Active, next.Status == Active
	stays := held && holds && old.FlowName == next.FlowName
	if held && !stays {
		p.add(Release(p.org, old.FlowName, deploymentKind, old.Name))
	}
	switch now := clock.ToMillis(p.now); {
	case !holds || stays:
	case p.head != nil: // this transaction raises the head's rev already
		p.add(putDependent(p.org, next.FlowName, deploymentKind, next.Name, now))
	default:
		p.add(Depend(*head, deploymentKind, next.Name, now)...)
	}
}
