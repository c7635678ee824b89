package registry

import (
	"encoding/json"

	"millrace/shared/account/audit"
	"millrace/shared/kit/record"
	"millrace/shared/platform/budget"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
)

// Deploy changes one deployment.
type Deploy struct {
	Name string
	// Action is the action of the audit entry; empty: create or update.
	Action string
	// Next returns the new deployment, given the current one (nil if there is
	// none): the fields that a user sets. It may be called several times.
	Next func(now *Deployment) (Deployment, error)
	// Chosen means that the flow version was chosen earlier, so that its absence
	// is a conflict (409) and not a 404.
	Chosen bool
	Always bool // count a deployment_version even if nothing changes
}

// deploy plans the writes of the deployment, its history and its dependence on
// the flow. Errors: those of Next; errs.NotFound or errs.Conflict without the
// flow version; errs.Unprocessable for parameters that violate the flow's
// schema.
func (p *plan) deploy(d *Deploy) error {
	var head *Head
	out, writes, entry, err := p.deployments().Prepare(p.ctx, d.Name, record.Change[Deployment]{
		Action: d.Action,
		Next: func(old *Deployment) (next Deployment, err error) {
			if next, err = d.Next(old); err != nil {
				return next, err
			}
			if err = checkSchedule(old, &next); err != nil {
				return next, err
			}
			if head, err = p.versionOf(&next); err != nil {
				if d.Chosen && errs.CodeOf(err) == errs.NotFound {
					err = errs.New(errs.Conflict, "Flow '%s' version '%s' is no longer registered", next.FlowName, next.FlowVersion)
				}
				return next, err
			}
			if old != nil && !d.Always && old.Same(&next) {
				next = *old
			} else {
				p.fill(old, &next, d.Name)
			}
			return next, p.checkParameters(next.Parameters)
		},
		Also: func(o record.Outcome[Deployment]) []table.Write {
			kept := o.After // history items are in no list
			kept.Key, kept.ListEntries = historyKey(p.org, d.Name, kept.DeploymentVersion), table.ListEntries{}
			return append(p.hold(o, head), table.Put{Item: kept})
		},
	})
	if err != nil {
		return err
	}
	p.add(writes...)
	if err := p.moveEnvironment(out); err != nil {
		return err
	}
	if err := p.moveSchedule(out); err != nil {
		return err
	}
	p.entry, p.out.Deployment, p.out.Deployed = entry, &out.After, out.Changed
	if out.Existed {
		p.out.Before = &out.Before
	}
	return nil
}

// versionOf sets the outcome's version to the one that the deployment selects.
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
// flow. Required ones may be missing, because a run may set them.
func (p *plan) checkParameters(params map[string]json.RawMessage) error {
	if len(params) == 0 {
		return nil
	}
	flow, err := p.flow()
	if err != nil {
		return err
	}
	ctx, end := budget.WithWaitLimit(p.ctx)
	defer end()
	return flow.CheckDefaults(ctx, params)
}

// fill sets the fields that the registry decides.
func (p *plan) fill(old, d *Deployment, name string) {
	d.OrgID, d.Name = p.org, name
	if old != nil {
		d.DeploymentVersion, d.Incarnation = old.DeploymentVersion+1, old.Incarnation
	} else {
		d.DeploymentVersion, d.Incarnation = 1, ids.New(p.now)
	}
	d.ListEntries = d.entries()
}

// hold moves the deployment's dependence on its flow. An active deployment
// prevents the deletion of the flow.
func (p *plan) hold(o record.Outcome[Deployment], head *Head) (writes []table.Write) {
	old, next := &o.Before, &o.After
	held, holds := old.Status == Active, next.Status == Active
	stays := held && holds && old.FlowName == next.FlowName
	if held && !stays {
		writes = append(writes, Release(p.org, old.FlowName, deploymentKind.Type, old.Name))
	}
	switch now := clock.ToMillis(p.now); {
	case !holds || stays:
	case p.head != nil: // this transaction increments the head's rev already
		writes = append(writes, putDependent(flowPK(p.org, next.FlowName), deploymentKind.Type, next.Name, now))
	default:
		writes = append(writes, Depend(*head, deploymentKind.Type, next.Name, now)...)
	}
	return writes
}

// moveEnvironment moves the deployment's hold on its environment. One that is not there is
// made.
func (p *plan) moveEnvironment(o record.Outcome[Deployment]) error {
	old, next := o.Before.Environment, o.After.Environment
	if !o.Changed || o.Existed && old == next {
		return nil
	}
	if o.Existed {
		p.add(ReleaseEnvironment(p.org, old, deploymentKind.Type, o.After.Name)...)
	}
	if next == DefaultEnvironment {
		return nil
	}
	e, found, err := p.FindEnvironment(p.ctx, next)
	if err != nil {
		return err
	}
	if found {
		p.add(DependOnEnvironment(&e, deploymentKind.Type, o.After.Name, p.now)...)
		return nil
	}
	made, writes, entry, err := p.environments().Prepare(p.ctx, next, p.creation(p.ctx, Environment{Name: next},
		func(now Environment) (Environment, error) { return now, table.ErrConflict })) // made meanwhile
	if err != nil {
		return err
	}
	p.out.NewEnvironment = made.Changed
	p.add(writes...)
	p.add(
		audit.Entry(p.ctx, p.now, entry),
		putDependent(environmentPK(p.org, next), deploymentKind.Type, o.After.Name, clock.ToMillis(p.now)),
	)
	return nil
}
