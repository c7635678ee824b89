package localtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/shared/account/audit"
	"millrace/shared/account/identity"
	"millrace/shared/account/tenant"
	"millrace/shared/kit/record"
	"millrace/shared/platform/errs"
	"millrace/shared/run/registry"
)

// SignIn returns a sign-in token for a user, who may be unknown.
func (env *Env) SignIn(t testing.TB, email string) string {
	t.Helper()
	token, err := env.Issuer.Token(email)
	require.NoError(t, err)
	return token
}

// User returns a sign-in token for the workspace's user with a role, e.g.
// "viewer@<org>.test", who becomes a member on first use.
func (env *Env) User(t testing.TB, w Workspace, role tenant.Role) string {
	t.Helper()
	email := UserEmail(w, role)
	_, err := identity.AddMember(env.as(w), env.Deps.Table, env.Clock.Now(), w.OrgID, email, role)
	if errs.CodeOf(err) != errs.Conflict {
		require.NoError(t, err)
	}
	return env.SignIn(t, email)
}

// UserEmail returns the email of the user whom [Env.User] signs in.
func UserEmail(w Workspace, role tenant.Role) string {
	return fmt.Sprintf("%s@%s.test", role, strings.ToLower(strings.ReplaceAll(w.OrgID, "_", "-")))
}

// Key creates an API key with these scopes; without any it has full access.
func (env *Env) Key(t testing.TB, w Workspace, scopes ...string) string {
	t.Helper()
	_, secret := env.key(t, w, time.Time{}, scopes)
	return secret
}

// ExpiredKey creates a full-access API key that has expired.
func (env *Env) ExpiredKey(t testing.TB, w Workspace) string {
	t.Helper()
	_, secret := env.key(t, w, env.Clock.Now().Add(-time.Second), nil)
	return secret
}

// RevokedKey creates a full-access API key and deletes it.
func (env *Env) RevokedKey(t testing.TB, w Workspace) string {
	t.Helper()
	key, secret := env.key(t, w, time.Time{}, nil)
	require.NoError(t, env.keys().Delete(env.as(w), key.KeyID))
	return secret
}

func (env *Env) key(t testing.TB, w Workspace, expires time.Time, scopes []string) (identity.APIKey, string) {
	t.Helper()
	key, secret, err := env.keys().Create(env.as(w), identity.KeyRequest{Name: "test", Scopes: scopes, ExpiresAt: expires})
	require.NoError(t, err)
	return key, secret
}

// keys returns the API keys without a limit on their number.
func (env *Env) keys() identity.Keys {
	return identity.NewKeys(record.Store{Table: env.Deps.Table, Clock: env.Clock})
}

// Environments creates environments in a workspace.
func (env *Env) Environments(t testing.TB, w Workspace, names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := env.Deps.Registry().CreateEnvironment(env.as(w), registry.Environment{Name: name})
		require.NoError(t, err)
	}
}

// as returns a context of the workspace's owner.
func (env *Env) as(w Workspace) context.Context {
	return tenant.With(context.Background(), tenant.Principal{
		OrgID: w.OrgID, OrgName: w.Name, Email: w.Owner, Role: tenant.Owner,
	})
}

// Audit returns a workspace's audit entries, oldest first.
func (env *Env) Audit(t testing.TB, org string) []audit.Record {
	t.Helper()
	var out []audit.Record
	for r, err := range audit.Entries(context.Background(), env.Deps.Table, org, time.Time{}, time.Time{}) {
		require.NoError(t, err)
		out = append(out, r)
	}
	return out
}

// AuditCount returns the number of audit entries of a workspace.
func (env *Env) AuditCount(t testing.TB, org string) int {
	t.Helper()
	return len(env.Audit(t, org))
}
