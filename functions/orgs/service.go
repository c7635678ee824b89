package orgs

import (
	"context"
	"strings"

	"millrace/shared/account/identity"
	"millrace/shared/account/quota"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/web/httpapi"
)

// service implements the rules of workspaces.
type service struct {
	table table.Table
	clock clock.Clock
	quota *quota.Quota
}

// list returns the workspaces of a user, or the one of a key.
func (s *service) list(ctx context.Context, _ *httpapi.None) (out httpapi.Items[OrgResponse], err error) {
	p := tenant.From(ctx)
	if p.IsKey() {
		w, err := identity.GetWorkspace(ctx, s.table, p.OrgID)
		out.Items = []OrgResponse{view(w, "")}
		return out, err
	}
	memberships, err := identity.Memberships(ctx, s.table, p.Email)
	if err != nil {
		return out, err
	}
	workspaces, err := identity.GetWorkspaces(ctx, s.table, memberships)
	if err != nil {
		return out, err
	}
	for _, m := range memberships {
		w, ok := workspaces[m.OrgID]
		if !ok {
			continue
		}
		o := view(w, m.Role)
		o.Suspended = o.Suspended || m.Suspended
		out.Items = append(out.Items, o)
	}
	return out, nil
}

// create creates a workspace owned by the caller. Errors: errs.Unprocessable,
// errs.TooMany.
func (s *service) create(ctx context.Context, in *createIn) (OrgResponse, error) {
	p := tenant.From(ctx)
	count := func(ctx context.Context) (int64, error) { return identity.CountWorkspaces(ctx, s.table, p.Email) }
	if err := s.quota.Take(ctx, quota.Workspaces, p.Email, 1, count); err != nil {
		return OrgResponse{}, err
	}
	w, err := identity.CreateWorkspace(ctx, s.table, s.clock.Now(), strings.TrimSpace(in.Body.Name), p.Email)
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
