package identity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/shared/account/audit"
	"millrace/shared/account/tenant"
	"millrace/shared/kit/record"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

// CountMembers returns the number of members of a workspace.
func CountMembers(ctx context.Context, t table.Table, org string) (int64, error) {
	return table.Count(ctx, t, table.Query{PK: memberKey(org, "").PK, Only: []string{"email"}, Consistent: true})
}

// ChangeRole gives a member another role, which holds from the member's next
// request on. It does nothing if the member has the role already. allow is
// asked with the member as stored and may reject the change; it is asked again
// if somebody else changes the member meanwhile.
//
// Errors: errs.NotFound if there is no such member; errs.Conflict if the
// workspace would be left without an owner who has access, or if others kept
// changing the member; those of allow.
func ChangeRole(
	ctx context.Context, t table.Table, now func() time.Time, org, email string, role tenant.Role, allow func(Membership) error,
) (out Membership, err error) {
	err = record.Retry(ctx, "the role of "+email, func() error {
		out, err = table.Load[Membership](ctx, t, memberKey(org, email), table.Consistent)
		if errors.Is(err, table.ErrNotFound) {
			return errs.New(errs.NotFound, "%s is not a member of this workspace", email)
		}
		if err != nil {
			return fmt.Errorf("read member: %w", err)
		}
		if err := allow(out); err != nil || out.Role == role {
			return err
		}
		writes, err := roleChange(ctx, t, out, role)
		if err != nil {
			return err
		}
		before := out.Role
		out.Role = role
		return t.Transact(ctx, append(writes, audit.EntryFor(ctx, org, now(), audit.Change{
			Action: "update_role", ResourceType: "member", ResourceID: email,
			Before: map[string]any{"email": email, "role": before}, After: map[string]any{"email": email, "role": role},
		}))...)
	})
	return out, err
}

// roleChange returns the writes that change a member's role. To demote an owner
// they require that another one remains: of two owners who are demoted at the
// same time, one stays.
func roleChange(ctx context.Context, t table.Table, m Membership, role tenant.Role) ([]table.Write, error) {
	set := []table.Action{table.Set("role", string(role))}
	writes := []table.Write{
		table.Update{Key: memberKey(m.OrgID, m.Email), Do: set, If: table.Eq("role", string(m.Role))},
		table.Update{Key: membershipKey(m.Email, m.OrgID), Do: set, If: table.IsStored()},
	}
	if m.Role != tenant.Owner {
		return writes, nil
	}
	members, err := Members(ctx, t, m.OrgID)
	if err != nil {
		return nil, err
	}
	remains := table.And(table.Eq("role", string(tenant.Owner)), table.Not(table.Eq("suspended", true)))
	for _, other := range members {
		if other.Role == tenant.Owner && !other.Suspended && other.Email != m.Email {
			writes = append(writes, table.Check{Key: memberKey(m.OrgID, other.Email), If: remains}) //guard:member/last-owner drop
			return writes, nil
		}
	}
	return nil, errs.New(errs.Conflict, "%s is the last owner of this workspace: make another member an owner first", m.Email)
}
