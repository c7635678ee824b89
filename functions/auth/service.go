package auth

import (
	"context"
	"slices"
	"strings"

	"millrace/shared/account/identity"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
	"millrace/shared/web/httpapi"
)

// defaultScopes are what a key gets whose maker named none.
var defaultScopes = []string{string(tenant.FlowsRead), string(tenant.RunsRead)}

// service holds the rules of API keys.
type service struct{ keys identity.Keys }

// me tells who calls.
func (s *service) me(ctx context.Context, _ *httpapi.None) (MeResponse, error) {
	p := tenant.From(ctx)
	return MeResponse{UserEmail: p.Email, OrgID: p.OrgID, Role: string(p.Role)}, nil
}

// currentUser tells who calls, with account metadata.
func (s *service) currentUser(ctx context.Context, _ *httpapi.None) (CurrentUserResponse, error) {
	p := tenant.From(ctx)
	return CurrentUserResponse{
		UserEmail: p.Email, SuperAdmin: p.SuperAdmin, OrgID: p.OrgID, OrgName: p.OrgName, Role: string(p.Role),
	}, nil
}

// list lists the workspace's keys, the newest first.
func (s *service) list(ctx context.Context, _ *httpapi.None) (ApiKeyListResponse, error) {
	keys, err := s.keys.List(ctx)
	return ApiKeyListResponse{Items: keys}, err
}

// create makes a key. Errors: errs.Unprocessable, errs.Forbidden for one that
// could do more than the caller, errs.TooMany.
func (s *service) create(ctx context.Context, in *createIn) (ApiKeyCreateResponse, error) {
	scopes := defaultScopes
	if in.Body.Scopes != nil {
		scopes = *in.Body.Scopes
	}
	if err := known(scopes); err != nil {
		return ApiKeyCreateResponse{}, err
	}
	if err := mayGive(tenant.From(ctx), scopes); err != nil {
		return ApiKeyCreateResponse{}, err
	}
	req := identity.KeyRequest{Name: strings.TrimSpace(in.Body.Name), Scopes: slices.Compact(slices.Sorted(slices.Values(scopes)))}
	if in.Body.ExpiresInDays != nil {
		req.ExpiresAt = s.keys.Clock.Now().AddDate(0, 0, *in.Body.ExpiresInDays)
	}
	key, secret, err := s.keys.Create(ctx, req)
	return ApiKeyCreateResponse{
		KeyID: key.KeyID, Key: secret, KeyPrefix: key.Prefix, Name: key.Name, Scopes: key.Scopes,
		CreatedAt: key.CreatedAt, ExpiresAt: key.ExpiresAt,
	}, err
}

// delete deletes a key. Errors: errs.NotFound.
func (s *service) delete(ctx context.Context, in *keyPath) (Deleted, error) {
	return Deleted{Status: "deleted"}, s.keys.Delete(ctx, in.KeyID)
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
