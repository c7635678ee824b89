// Package tenant defines callers and their rights: principals, the four roles,
// the 35 permissions, the scopes of API keys, and the access that an operation
// requires.
package tenant

import (
	"context"
	"slices"
)

// Principal is the authenticated caller in one workspace: a signed-in user
// (KeyID empty) or an API key (KeyID set).
type Principal struct {
	OrgID   string // the workspace; empty for a user who has none yet
	OrgName string
	Email   string // of the user; for an API key, of its creator
	Role    Role   // in the workspace; empty for an API key
	KeyID   string // of the API key; empty for a user

	// Scopes are the API key's scopes; nil for users.
	Scopes []string
	// FullAccess is set for an API key with an empty scope list, which acts as an
	// owner with every scope.
	FullAccess bool
	// SuperAdmin is set for platform administrators, never for API keys.
	SuperAdmin bool
	// SessionID identifies the access token of a signed-in user, if it carries
	// one.
	SessionID string
}

// IsKey reports whether the caller is an API key.
func (p Principal) IsKey() bool { return p.KeyID != "" }

// Actor returns the caller's name in records: the email of a user,
// "api-key:<id>" for a key, "" for nobody.
func (p Principal) Actor() string {
	if p.IsKey() {
		return "api-key:" + p.KeyID
	}
	return p.Email
}

// Holds reports whether the caller has the permission: by role for a user, by
// scope for an API key.
func (p Principal) Holds(perm Permission) bool {
	if p.IsKey() {
		return p.HasScope(string(perm))
	}
	return p.Role.Has(perm)
}

// HasScope reports whether an API key has the scope. It is false for users.
func (p Principal) HasScope(scope string) bool {
	return p.IsKey() && (p.FullAccess || slices.Contains(p.Scopes, scope))
}

type principalKey struct{}

// With returns a context with the principal.
func With(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// From returns the context's principal, the zero Principal if it has none.
func From(ctx context.Context) Principal {
	p, _ := ctx.Value(principalKey{}).(Principal)
	return p
}
