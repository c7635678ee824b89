package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"millrace/shared/account/quota"
	"millrace/shared/kit/record"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

// Statuses of a deployment.
const (
	Active   = "ACTIVE"   // its flow cannot be deleted, and runs may start from it
	Inactive = "INACTIVE" // starts no runs
)

// Deployment is a name that selects a flow version, an environment and a
// runtime tier for runs. Each change raises DeploymentVersion by one.
type Deployment struct {
	record.Meta
	table.ListEntries
	OrgID             string                     `table:"org_id"`
	Name              string                     `table:"name"`
	FlowName          string                     `table:"flow_name"`
	FlowVersion       string                     `table:"flow_version"`
	Environment       string                     `table:"environment"`
	Namespace         string                     `table:"namespace,omitempty"`
	ExecutionMode     string                     `table:"execution_mode"`     // a tier's name
	DefaultExecutor   string                     `table:"default_executor"`   // one of Executors
	Status            string                     `table:"status"`             // Active or Inactive
	Schedule          string                     `table:"schedule,omitempty"` // a cron expression
	Timezone          string                     `table:"timezone,omitempty"` // of Schedule; "" is UTC
	DeploymentVersion int                        `table:"deployment_version"` // counts from 1 without gaps
	Incarnation       string                     `table:"incarnation"`
	Parameters        map[string]json.RawMessage `table:"parameters,omitempty"` // defaults for a run's parameters
	Tags              map[string]string          `table:"tags,omitempty"`
	DepPackageSlugs   []string                   `table:"dep_package_slugs,omitempty"`
}

// Audited returns the deployment as audit entries show it.
func (d *Deployment) Audited() any { return d.View() }

// deploymentKind is the record kind of deployments.
var deploymentKind = record.Kind{Folder: "deployments", Type: "deployment", Noun: "Deployment", Limit: quota.Deployments}

// deployments returns the deployments of the context's workspace.
func (s Store) deployments() record.Set[Deployment, *Deployment] {
	return record.New[Deployment](deploymentKind, record.Store{Table: s.Table, Clock: s.Clock, Quota: s.Quota})
}

// Same reports whether two deployments are equal in all fields that a user
// sets.
func (d *Deployment) Same(o *Deployment) bool {
	return d.FlowName == o.FlowName && d.FlowVersion == o.FlowVersion &&
		d.Environment == o.Environment && d.Namespace == o.Namespace &&
		d.ExecutionMode == o.ExecutionMode && d.DefaultExecutor == o.DefaultExecutor &&
		d.Status == o.Status && d.Schedule == o.Schedule && d.Timezone == o.Timezone &&
		sameJSON(d.Parameters, o.Parameters) && maps.Equal(d.Tags, o.Tags) &&
		slices.Equal(d.DepPackageSlugs, o.DepPackageSlugs)
}

func deploymentKey(org, name string) table.Key {
	return table.Key{PK: org + "#" + deploymentKind.Folder, SK: name}
}

func historyPK(org, name string) string { return org + "#deployment#" + name }

func historyKey(org, name string, version int) table.Key {
	return table.Key{PK: historyPK(org, name), SK: fmt.Sprintf("%010d", version)}
}

// A deployment is in two lists: the deployments of its environment by name, and
// the flows of its environment by flow.
func deploymentsIn(org, environment string) string { return org + "#deployments#env#" + environment }

func flowsIn(org, environment string) string { return org + "#flows#env#" + environment }

func (d *Deployment) entries() table.ListEntries {
	return table.ListEntries{
		L3PK: deploymentsIn(d.OrgID, d.Environment), L3SK: d.Name,
		L4PK: flowsIn(d.OrgID, d.Environment), L4SK: d.FlowName + "#" + d.Name,
	}
}

// GetDeployment returns a deployment, consistently. Errors: errs.NotFound.
func GetDeployment(ctx context.Context, t table.Table, org, name string) (Deployment, error) {
	if !ValidName(name) {
		return Deployment{}, NoDeployment(name)
	}
	d, found, err := load[Deployment](ctx, t, deploymentKey(org, name))
	if err == nil && !found {
		err = NoDeployment(name)
	}
	return d, err
}

// DeploymentAt returns the deployment as it was at one of its
// deployment_versions. Errors: errs.NotFound.
func DeploymentAt(ctx context.Context, t table.Table, now Deployment, version int) (Deployment, error) {
	missing := errs.New(errs.NotFound, "Deployment '%s' has no deployment_version %d", now.Name, version)
	if version < 1 || version > now.DeploymentVersion {
		return Deployment{}, missing
	}
	d, found, err := load[Deployment](ctx, t, historyKey(now.OrgID, now.Name, version))
	if err == nil && (!found || d.Incarnation != now.Incarnation) {
		err = missing
	}
	return d, err
}

// Deployments returns up to limit deployments of those after a name, "" for the first
// ones, in order of their names, only those of one environment unless it is empty. It
// also returns the name after which the next page begins, "" if there is none.
func (s Store) Deployments(ctx context.Context, environment, after string, limit int) ([]Deployment, string, error) {
	if environment != "" {
		return deploymentsOf(ctx, s.Table, tenantOf(ctx), environment, after, limit)
	}
	return s.deployments().Page(ctx, after, limit, nil)
}

// DeploymentsIn returns all deployments of an environment in order of their names,
// consistently.
func (s Store) DeploymentsIn(ctx context.Context, environment string) ([]Deployment, error) {
	return s.deployments().List(ctx, "", 0, func(d *Deployment) bool { return d.Environment == environment })
}

// deploymentsOf is Deployments of one environment. The index may be stale, so
// the items decide.
func deploymentsOf(ctx context.Context, t table.Table, org, environment, after string, limit int) (out []Deployment, next string, err error) {
	out = make([]Deployment, 0, min(limit, 128))
	q := table.Query{Index: table.ByEnv, PK: deploymentsIn(org, environment), Limit: limit + 1}
	if after != "" {
		q.Range = table.After(after)
	}
	for {
		page, err := t.Query(ctx, q)
		if err != nil {
			return nil, "", fmt.Errorf("list deployments of %s: %w", environment, err)
		}
		found, err := loadAll[Deployment](ctx, t, keysOf(page.Items))
		if err != nil {
			return nil, "", err
		}
		for _, d := range found {
			if d.Environment != environment {
				continue
			}
			if len(out) == limit {
				return out, next, nil
			}
			out, next = append(out, d), d.Name
		}
		if page.Next == "" {
			return out, "", nil
		}
		q.Start = page.Next
	}
}
