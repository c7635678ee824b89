package orgs

import (
	"context"
	"strings"

	"millrace/shared/account/identity"
	"millrace/shared/account/quota"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

// service holds the rules of workspaces.
type service struct {
	table table.Table
	clock clock.Clock
	quota *quota.Quota
}

func (s service) list(ctx context.Context) ([]OrgResponse, error) {
	p := tenant.From(ctx)
	if p.IsKey() {
		w, err := identity.GetWorkspace(ctx, s.table, p.OrgID)
		if err != nil {
			return nil, err
		}
		return []OrgResponse{view(w, "")}, nil
	}
	memberships, err := identity.Memberships(ctx, s.table, p.Email)
	if err != nil {
		return nil, err
	}
	workspaces, err := identity.GetWorkspaces(ctx, s.table, memberships)
	if err != nil {
		return nil, err
	}
	out := make([]OrgResponse, 0, len(memberships))
	for _, m := range memberships {
		w, ok := workspaces[m.OrgID]
		if !ok {
			continue
		}
		o := view(w, m.Role)
		o.Suspended = o.Suspended || m.Suspended
		out = append(out, o)
	}
	return out, nil
}

func (s service) create(ctx context.Context, name string) (OrgResponse, error) {
	trimmed := strings.TrimSpace(name)
	if trimmed == "" {
		return OrgResponse{}, errs.Field(errs.Body("name"), name, "name must not be blank")
	}
	p := tenant.From(ctx)
	count := func(ctx context.Context) (int64, error) { return identity.CountWorkspaces(ctx, s.table, p.Email) }
	if err := s.quota.Take(ctx, quota.Workspaces, p.Email, 1, count); err != nil {
		return OrgResponse{}, err
	}
	w, err := identity.CreateWorkspace(ctx, s.table, s.clock.Now(), trimmed, p.Email)
	if err != nil {
		return OrgResponse{}, err
	}
	return view(w, tenant.Owner), nil
}

func view(w identity.Workspace, role tenant.Role) OrgResponse {
	return OrgResponse{
		OrgID: w.OrgID, Name: w.Name, Role: string(role), Suspended: w.Suspended, CreatedAt: w.CreatedAt.String(),
	}
}
