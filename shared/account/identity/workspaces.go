package identity

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"millrace/shared/account/audit"
	"millrace/shared/account/retention"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
)

// CreateWorkspace creates a workspace owned by the user with this email.
func CreateWorkspace(ctx context.Context, t table.Table, now time.Time, name, email string) (Workspace, error) {
	w, writes := newWorkspace(ctx, now, name, email)
	if err := t.Transact(ctx, writes...); err != nil {
		return Workspace{}, err
	}
	return w, nil
}

// CountWorkspaces returns the number of workspaces that a user has created.
func CountWorkspaces(ctx context.Context, t table.Table, email string) (int64, error) {
	return table.Count(ctx, t, table.Query{
		PK: userKey(email).PK, Range: table.Prefix("org#"), Only: []string{"org_id"}, Consistent: true,
		Filter: table.And(table.Eq("added_by", email), table.Eq("role", string(tenant.Owner))),
	})
}

// newWorkspace returns a workspace and the writes that store it, the audit
// entry last. The entry is in the new workspace's audit log.
func newWorkspace(ctx context.Context, now time.Time, name, email string) (Workspace, []table.Write) {
	org := "org_" + ids.New(now)
	w := Workspace{
		Key: workspaceKey(org), OrgID: org, Name: name, CreatedAt: clock.ToMillis(now), CreatedBy: email,
	}
	return w, append(
		[]table.Write{table.Put{Item: w, If: table.IsNew()}, audit.Begin(org, now), retention.Begin(org, now)},
		append(newMember(Membership{
			OrgID: org, Email: email, Role: tenant.Owner, AddedAt: w.CreatedAt, AddedBy: email,
		}), audit.EntryFor(ctx, org, now, audit.Change{
			Action: "create", ResourceType: "org", ResourceID: org,
			After: map[string]any{"org_id": org, "name": name, "owner": email, "created_at": w.CreatedAt.String()},
		}))...,
	)
}

// newMember returns the writes that store a membership by workspace and by
// user, and the user if it is new.
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

// AddMember adds a user to a workspace. The caller must have checked that ctx's
// principal may grant the role. Errors: errs.Conflict if the user is a member
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

// SuspendMember suspends a user's access to a workspace, or restores it. It
// does nothing if the state is already as requested. The user's sessions and
// API keys are rejected there from then on, because no access decision is
// cached; running work continues. Errors: errs.NotFound.
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

// SuspendWorkspace suspends all access to a workspace, or restores it. It does
// nothing if the state is already as requested. Errors: errs.NotFound.
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

// sortMemberships sorts by time, the earliest joined first.
func sortMemberships(ms []Membership) {
	slices.SortStableFunc(ms, func(a, b Membership) int {
		return cmp.Or(cmp.Compare(a.AddedAt, b.AddedAt), cmp.Compare(a.OrgID, b.OrgID))
	})
}
