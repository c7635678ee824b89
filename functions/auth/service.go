package auth

import (
	"context"
	"slices"
	"strings"

	"millrace/shared/account/identity"
	"millrace/shared/account/quota"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

// defaultScopes are what a key gets whose maker named none.
var defaultScopes = []string{string(tenant.FlowsRead), string(tenant.RunsRead)}

// service holds the rules of API keys.
type service struct {
	table table.Table
	clock clock.Clock
	quota *quota.Quota
}

func (s service) list(ctx context.Context) ([]identity.APIKey, error) {
	return identity.ListKeys(ctx, s.table, tenant.From(ctx).OrgID)
}

func (s service) create(ctx context.Context, body ApiKeyCreateRequest) (identity.APIKey, string, error) {
	trimmed := strings.TrimSpace(body.Name)
	if trimmed == "" {
		return identity.APIKey{}, "", errs.Field(errs.Body("name"), body.Name, "name must not be blank")
	}
	scopes := defaultScopes
	if body.Scopes != nil {
		scopes = *body.Scopes
	}
	if err := known(scopes); err != nil {
		return identity.APIKey{}, "", err
	}
	p := tenant.From(ctx)
	if err := mayGive(p, scopes); err != nil {
		return identity.APIKey{}, "", err
	}
	count := func(ctx context.Context) (int64, error) { return identity.CountKeys(ctx, s.table, p.OrgID) }
	if err := s.quota.Take(ctx, quota.APIKeys, p.OrgID, 1, count); err != nil {
		return identity.APIKey{}, "", err
	}
	now := s.clock.Now()
	req := identity.KeyRequest{OrgID: p.OrgID, Name: trimmed, Scopes: slices.Compact(slices.Sorted(slices.Values(scopes)))}
	if body.ExpiresInDays != nil {
		req.ExpiresAt = now.AddDate(0, 0, *body.ExpiresInDays)
	}
	return identity.CreateKey(ctx, s.table, now, req)
}

func (s service) delete(ctx context.Context, keyID string) error {
	return identity.DeleteKey(ctx, s.table, s.clock.Now(), tenant.From(ctx).OrgID, keyID)
}

// known refuses scopes that do not exist, one entry for each.
func known(scopes []string) error {
	var faults []errs.Detail
	for i, scope := range scopes {
		if !tenant.KnownScope(scope) {
			faults = append(faults, errs.Detail{
				Type: "value_error", Loc: errs.Body("scopes", i), Msg: "unknown scope", Input: scope,
			})
		}
	}
	if faults != nil {
		return errs.Validation(faults...)
	}
	return nil
}

// mayGive refuses a key that could do more than the one who makes it.
func mayGive(p tenant.Principal, scopes []string) error {
	if len(scopes) == 0 && p.Role != tenant.Owner && !p.FullAccess {
		return errs.New(errs.Forbidden, "Permission denied: only an owner can make a key with full access")
	}
	for _, scope := range scopes {
		if !holds(p, scope) {
			return errs.New(errs.Forbidden, "Permission denied: requires '%s'", scope)
		}
	}
	return nil
}

// holds reports whether the caller has what the scope gives. The scope admin
// is no permission: it opens account routes, which owners and admins may use.
func holds(p tenant.Principal, scope string) bool {
	if scope == tenant.ScopeAdmin && !p.IsKey() {
		return p.Role.Rank() >= tenant.Admin.Rank()
	}
	return p.Holds(tenant.Permission(scope))
}
