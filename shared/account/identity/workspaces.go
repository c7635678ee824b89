package identity

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"millrace/shared/account/audit"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
)

// CreateWorkspace makes a workspace whose owner is the user of that email.
func CreateWorkspace(ctx context.Context, t table.Table, now time.Time, name, email string) (Workspace, error) {
	w, writes := newWorkspace(ctx, now, name, email)
	if err := t.Transact(ctx, writes...); err != nil {
		return Workspace{}, err
	}
	return w, nil
}

// CountWorkspaces counts the workspaces that a user has made.
func CountWorkspaces(ctx context.Context, t table.Table, email string) (int64, error) {
	return table.Count(ctx, t, table.Query{
		PK: userKey(email).PK, Range: table.Prefix("org#"), Only: []string{"org_id"}, Consistent: true,
		Filter: table.And(table.Eq("added_by", email), table.Eq("role", string(tenant.Owner))),
	})
}

// newWorkspace makes a workspace and the writes that store it, its audit entry
// the last. The entry stands in the new workspace's own log.
func newWorkspace(ctx context.Context, now time.Time, name, email string) (Workspace, []table.Write) {
	org := "org_" + ids.New(now)
	w := Workspace{
		Key: workspaceKey(org), OrgID: org, Name: name, CreatedAt: clock.ToMillis(now), CreatedBy: email,
	}
	return w, append(
		[]table.Write{table.Put{Item: w, If: table.IsNew()}},
		append(newMember(Membership{
			OrgID: org, Email: email, Role: tenant.Owner, AddedAt: w.CreatedAt, AddedBy: email,
		}), audit.EntryFor(ctx, org, now, audit.Change{
			Action: "create", ResourceType: "org", ResourceID: org,
			After: map[string]any{"org_id": org, "name": name, "owner": email, "created_at": w.CreatedAt.String()},
		}))...,
	)
}

// newMember is the writes that store a membership from both sides, and the
// user if this is the first.
func newMember(m Membership) []table.Write {
	outer, inner := m, m
	outer.Key, inner.Key = memberKey(m.OrgID, m.Email), membershipKey(m.Email, m.OrgID)
	return []table.Write{
		table.Put{Item: outer, If: table.IsNew()},
		table.Put{Item: inner, If: table.IsNew()},
		table.Update{Key: userKey(m.Email), Do: []table.Action{
			table.SetIfAbsent("email", m.Email), table.SetIfAbsent("created_at", m.AddedAt),
		}},
	}
}

// AddMember makes a user a member of a workspace. The caller has checked that
// ctx's principal may give that role. Errors: errs.Conflict if the user is one
// already.
func AddMember(ctx context.Context, t table.Table, now time.Time, org, email string, role tenant.Role) (Membership, error) {
	m := Membership{
		OrgID: org, Email: email, Role: role, AddedAt: clock.ToMillis(now), AddedBy: tenant.From(ctx).Actor(),
	}
	err := t.Transact(ctx, append(newMember(m), audit.EntryFor(ctx, org, now, audit.Change{
		Action: "create", ResourceType: "member", ResourceID: email,
		After: map[string]any{"email": email, "role": role},
	}))...)
	if errors.Is(err, table.ErrConditionFailed) {
		return Membership{}, errs.New(errs.Conflict, "%s is already a member of this workspace", email)
	}
	m.Key = memberKey(org, email)
	return m, err
}

// SuspendMember suspends a user's access to a workspace, or restores it; nothing
// happens if it is so already. From then on their sessions and the API keys that
// they made are refused there: nothing that says otherwise is kept in memory. What
// they started goes on. Errors: errs.NotFound.
func SuspendMember(ctx context.Context, t table.Table, now time.Time, org, email string, suspended bool) error {
	m, err := table.Load[Membership](ctx, t, memberKey(org, email), table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return errs.New(errs.NotFound, "member not found")
	}
	if err != nil || m.Suspended == suspended {
		return err
	}
	do := []table.Action{table.Set("suspended", suspended)}
	return t.Transact(ctx,
		table.Update{Key: memberKey(org, email), Do: do, If: table.IsStored()},
		table.Update{Key: membershipKey(email, org), Do: do, If: table.IsStored()},
		suspension(ctx, now, org, "member", email, suspended),
	)
}

// SuspendWorkspace suspends all access to a workspace, or restores it; nothing
// happens if it is so already. Errors: errs.NotFound.
func SuspendWorkspace(ctx context.Context, t table.Table, now time.Time, org string, suspended bool) error {
	w, err := GetWorkspace(ctx, t, org)
	if err != nil || w.Suspended == suspended {
		return err
	}
	return t.Transact(ctx,
		table.Update{Key: w.Key, Do: []table.Action{table.Set("suspended", suspended)}, If: table.IsStored()},
		suspension(ctx, now, org, "org", org, suspended),
	)
}

func suspension(ctx context.Context, now time.Time, org, kind, id string, suspended bool) table.Put {
	action := "restore"
	if suspended {
		action = "suspend"
	}
	return audit.EntryFor(ctx, org, now, audit.Change{
		Action: action, ResourceType: kind, ResourceID: id,
		Before: map[string]any{"suspended": !suspended}, After: map[string]any{"suspended": suspended},
	})
}

// sortMemberships puts the earliest joined first.
func sortMemberships(ms []Membership) {
	slices.SortStableFunc(ms, func(a, b Membership) int {
		return cmp.Or(cmp.Compare(a.AddedAt, b.AddedAt), cmp.Compare(a.OrgID, b.OrgID))
	})
}
