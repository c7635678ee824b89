package orgs

import (
	"context"

	"millrace/shared/account/identity"
	"millrace/shared/account/quota"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
	"millrace/shared/web/httpapi"
)

// members lists the members of the caller's workspace, the earliest added
// first.
func (s *service) members(ctx context.Context, in *membersIn) (out httpapi.Items[MemberResponse], err error) {
	all, err := identity.Members(ctx, s.table, in.OrgID)
	for _, m := range all {
		out.Items = append(out.Items, memberView(m))
	}
	return out, err
}

// addMember adds a member. Errors: errs.Unprocessable for an invalid email,
// errs.Forbidden for a role above the caller's, errs.Conflict for a member,
// errs.TooMany.
func (s *service) addMember(ctx context.Context, in *addIn) (MemberResponse, error) {
	email, err := identity.ParseEmail(in.Body.Email)
	if err != nil {
		return MemberResponse{}, errs.Field(errs.Body("email"), in.Body.Email, "not a valid email address")
	}
	role := tenant.Role(in.Body.Role)
	if err := mayGrant(ctx, role); err != nil {
		return MemberResponse{}, err
	}
	count := func(ctx context.Context) (int64, error) { return identity.CountMembers(ctx, s.table, in.OrgID) }
	if err := s.quota.Take(ctx, quota.Members, in.OrgID, 1, count); err != nil {
		return MemberResponse{}, err
	}
	m, err := identity.AddMember(ctx, s.table, s.clock.Now(), in.OrgID, email, role)
	return memberView(m), err
}

// changeRole changes the role of a member. Errors: errs.Unprocessable for an
// invalid email, errs.Forbidden for a role or a member above the caller,
// errs.NotFound, errs.Conflict for the last owner.
func (s *service) changeRole(ctx context.Context, in *roleIn) (MemberResponse, error) {
	email, err := identity.ParseEmail(in.Email)
	if err != nil {
		return MemberResponse{}, errs.Field([]any{"path", "email"}, in.Email, "not a valid email address")
	}
	role := tenant.Role(in.Body.Role)
	if err := mayGrant(ctx, role); err != nil {
		return MemberResponse{}, err
	}
	m, err := identity.ChangeRole(ctx, s.table, s.clock.Now, in.OrgID, email, role, func(now identity.Membership) error {
		if now.Role.Rank() > actsAs(tenant.From(ctx)).Rank() {
			return errs.New(errs.Forbidden, "Permission denied: %s is an %s, which is above you", now.Email, now.Role)
		}
		return nil
	})
	return memberView(m), err
}

// roles lists the roles with their permissions, the highest role first.
func (s *service) roles(context.Context, *membersIn) (out RolePermissionsResponse, err error) {
	for _, role := range tenant.Roles() {
		out.Items = append(out.Items, RolePermissions{Role: string(role), Permissions: role.Permissions()})
	}
	return out, nil
}

// mayGrant returns errs.Forbidden for a role above the caller's.
func mayGrant(ctx context.Context, role tenant.Role) error {
	if own := actsAs(tenant.From(ctx)); role.Rank() > own.Rank() {
		return errs.New(errs.Forbidden, "Permission denied: an %s cannot grant the role %s", own, role)
	}
	return nil
}

// actsAs returns the role that bounds what a caller may grant. A key with the
// scopes of these operations can do no more than an admin; one with full access
// was created by an owner.
func actsAs(p tenant.Principal) tenant.Role {
	switch {
	case !p.IsKey():
		return p.Role
	case p.FullAccess:
		return tenant.Owner
	}
	return tenant.Admin
}

func memberView(m identity.Membership) MemberResponse {
	return MemberResponse{
		OrgID: m.OrgID, Email: m.Email, Role: string(m.Role), Suspended: m.Suspended, AddedAt: m.AddedAt.String(), AddedBy: m.AddedBy,
	}
}
