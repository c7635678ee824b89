package deployments

import (
	"context"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
	"millrace/shared/run/registry"
	"millrace/shared/web/httpapi"
)

// service implements the rules of deployments.
type service struct {
	store   registry.Store
	cursors httpapi.Cursors
}

// put creates a deployment or changes the existing one.
func (s *service) put(ctx context.Context, req *putIn) (DeploymentResponse, error) {
	in := &req.Body
	if err := in.check(s.store.Tiers); err != nil {
		return DeploymentResponse{}, err
	}
	v, err := registry.GetVersion(ctx, s.store.Table, tenant.From(ctx).OrgID, in.FlowName, in.FlowVersion)
	if err != nil {
		return DeploymentResponse{}, err
	}
	out, err := s.store.Commit(ctx, registry.Change{Deploy: &registry.Deploy{Name: in.DeploymentName, Next: func(now *registry.Deployment) (registry.Deployment, error) {
		next := registry.Deployment{
			Environment: registry.DefaultEnvironment, Status: registry.Active,
			ExecutionMode: v.ExecutionMode, DefaultExecutor: v.DefaultExecutor, DepPackageSlugs: v.DepPackageSlugs,
		}
		if now != nil {
			next = *now
		}
		next.FlowName, next.FlowVersion = in.FlowName, in.FlowVersion
		in.apply(&next, in.Nulls)
		return next, nil
	}}})
	if err != nil {
		return DeploymentResponse{}, err
	}
	return DeploymentResponse{out.Deployment.View(), out.NewEnvironment, out.NextRun()}, nil
}

// version changes the flow version of the deployment.
func (s *service) version(ctx context.Context, in *versionIn) (DeploymentListItem, error) {
	view, err := s.edit(ctx, registry.Deploy{Name: in.Name, Action: "change_version"}, func(next *registry.Deployment) error {
		next.FlowVersion = in.Body.FlowVersion
		return nil
	})
	return DeploymentListItem{view}, err
}

// settings changes settings.
func (s *service) settings(ctx context.Context, in *settingsIn) (DeploymentListItem, error) {
	if err := in.Body.check(s.store.Tiers); err != nil {
		return DeploymentListItem{}, err
	}
	view, err := s.edit(ctx, registry.Deploy{Name: in.Name, Action: "update_settings", Chosen: true}, func(next *registry.Deployment) error {
		in.Body.apply(next, in.Body.Nulls)
		return nil
	})
	return DeploymentListItem{view}, err
}

// rollback restores the state of the deployment at an earlier
// deployment_version.
func (s *service) rollback(ctx context.Context, in *rollbackIn) (RollbackResponse, error) {
	var out RollbackResponse
	view, err := s.edit(ctx, registry.Deploy{Name: in.Name, Action: "rollback", Chosen: true, Always: true}, func(next *registry.Deployment) error {
		now := *next
		out.RolledBackFrom, out.RolledBackTo = now.DeploymentVersion, now.DeploymentVersion-1
		if in.Body != nil && in.Body.DeploymentVersion != nil {
			out.RolledBackTo = *in.Body.DeploymentVersion
		}
		switch out.RolledBackTo {
		case 0:
			return errs.New(errs.Conflict, "Deployment '%s' has no earlier deployment_version to roll back to", in.Name)
		case now.DeploymentVersion:
			return errs.New(errs.Conflict, "Deployment '%s' is at deployment_version %d already", in.Name, now.DeploymentVersion)
		}
		then, err := registry.DeploymentAt(ctx, s.store.Table, now, out.RolledBackTo)
		if err != nil {
			return err
		}
		*next = then
		next.Status = now.Status
		return nil
	})
	out.DeploymentView = view
	return out, err
}

// edit changes an existing deployment.
func (s *service) edit(ctx context.Context, d registry.Deploy, do func(*registry.Deployment) error) (registry.DeploymentView, error) {
	d.Next = func(now *registry.Deployment) (registry.Deployment, error) {
		if now == nil {
			return registry.Deployment{}, registry.NoDeployment(d.Name)
		}
		next := *now
		err := do(&next)
		return next, err
	}
	return s.change(ctx, d)
}

// change commits one change of one deployment.
func (s *service) change(ctx context.Context, d registry.Deploy) (registry.DeploymentView, error) {
	out, err := s.store.Commit(ctx, registry.Change{Deploy: &d})
	if err != nil {
		return registry.DeploymentView{}, err
	}
	return out.Deployment.View(), nil
}

// list lists deployments by name. Errors: errs.Invalid for a bad next_token.
func (s *service) list(ctx context.Context, in *listQuery) (DeploymentListResponse, error) {
	all, next, err := httpapi.ReadPage(ctx, s.cursors, in, func(after string) ([]registry.Deployment, string, error) {
		return s.store.Deployments(ctx, in.Environment, after, in.Limit)
	})
	if err != nil {
		return DeploymentListResponse{}, err
	}
	out := DeploymentListResponse{make([]DeploymentListItem, len(all)), next}
	for i := range all {
		out.Items[i] = DeploymentListItem{all[i].View()}
	}
	return out, nil
}

// get returns one deployment. Errors: errs.NotFound.
func (s *service) get(ctx context.Context, in *path) (DeploymentListItem, error) {
	d, err := registry.GetDeployment(ctx, s.store.Table, tenant.From(ctx).OrgID, in.Name)
	return DeploymentListItem{d.View()}, err
}

// delete deletes one deployment. Errors: errs.NotFound.
func (s *service) delete(ctx context.Context, in *path) (DeletedDeployment, error) {
	return DeletedDeployment{Status: "deleted", DeploymentName: in.Name}, s.store.DeleteDeployment(ctx, in.Name)
}
