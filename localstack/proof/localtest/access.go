package localtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/account/tenant"
	"millrace/shared/web/httpapi"
)

// CheckAccess sends one operation with every credential that must be rejected
// (none, malformed, expired, revoked, a key lacking one of the scopes, a user
// of each role that lacks the permission) and asserts the status, the error
// message and that nothing was audited. path must match the operation's
// pattern, and body must be valid.
func (env *Env) CheckAccess(t testing.TB, operationID, path string, body any) {
	t.Helper()
	op := env.Operation(t, operationID)
	require.False(t, op.Access.IsPublic(), "%s is public", operationID)
	refused := func(name, credential string, code int, detail string) {
		t.Helper()
		before := env.AuditCount(t, env.A.OrgID)
		res := env.Do(t, credential, op.Method, path, body)
		name = operationID + " with " + name
		assert.Equal(t, code, res.Code, "%s: %s", name, res.Body)
		got := res.String(t, "detail")
		if detail != "" {
			assert.Equal(t, detail, got, name)
		}
		if credential != "" {
			assert.NotContains(t, string(res.Body), credential, name)
		}
		assert.Equal(t, before, env.AuditCount(t, env.A.OrgID), "%s was audited", name)
	}
	refused("no credential", "", 401, "")
	refused("a malformed key", "svc_nonsense", 401, "")
	refused("a token of nobody's", "eyJhbGciOiJub25lIn0.e30.", 401, "")
	refused("an expired key", env.ExpiredKey(t, env.A), 401, "")
	refused("a revoked key", env.RevokedKey(t, env.A), 401, "")

	needed := scopes(op.Access)
	for _, missing := range needed {
		if strings.HasPrefix(missing, "(") {
			continue // alternatives are left to the domain's own test
		}
		rest := slices.DeleteFunc(allScopes(), func(s string) bool { return s == missing })
		refused("a key without "+missing, env.Key(t, env.A, rest...), 403, denial(missing))
	}
	if perm := op.Access.Permission(); perm != "" {
		for _, role := range tenant.Roles() {
			if !role.Has(perm) {
				refused("a session of a "+string(role), env.User(t, env.A, role), 403, denial(string(perm)))
			}
		}
		refused("a user without a workspace", env.SignIn(t, "nobody@elsewhere.test"), 403, denial(string(perm)))
	}
}

// Operation returns the registered operation with an id.
func (env *Env) Operation(t testing.TB, id string) httpapi.Operation {
	t.Helper()
	for _, op := range env.API.Operations() {
		if op.ID == id {
			return op
		}
	}
	require.Fail(t, fmt.Sprintf("no operation %q", id))
	return httpapi.Operation{}
}

func denial(what string) string { return "Permission denied: requires '" + what + "'" }

// scopes returns the scopes that a key needs; alternatives are one element in
// parentheses.
func scopes(a tenant.Access) []string {
	if a.Scopes() == "" {
		return nil
	}
	return strings.Split(a.Scopes(), "+")
}

func allScopes() []string {
	out := []string{tenant.ScopeAdmin}
	for _, p := range tenant.Permissions() {
		out = append(out, string(p))
	}
	return out
}
