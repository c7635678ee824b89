package catalog_test

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/localstack/proof/localtest"
	"millrace/shared/account/identity"
	"millrace/shared/account/tenant"
)

// caller is a column of the matrix.
type caller struct {
	name       string
	credential func() string // returns a valid one each time, if there is any
	header     string        // X-Org-Id
	org        string        // the workspace in which the caller acts, "" for none
	// refusal returns the status with which an operation that is not public is
	// refused, 0 if it is allowed, and what the detail contains.
	refusal func(requirement) (status int, detail string)
}

// notFoundOrForbidden is the refusal of a workspace that the caller is not in.
const notFoundOrForbidden = -1

// expect returns the refusal of an operation, 0 if it is allowed.
func (c caller) expect(r requirement, orgID string) (status int, detail string) {
	if r.access == "public" {
		return 0, ""
	}
	status, detail = c.refusal(r)
	if status == 0 && strings.Contains(r.path, "{org_id}") && c.org != orgID {
		status = notFoundOrForbidden
	}
	return status, detail
}

// refuses returns a refusal of all operations.
func refuses(status int, detail string) func(requirement) (int, string) {
	return func(requirement) (int, string) { return status, detail }
}

func denies(what string) (int, string) { return 403, "Permission denied: requires '" + what + "'" }

// asUser returns the refusal of a signed-in user with some permissions.
func asUser(permissions []string, superAdmin bool) func(requirement) (int, string) {
	return func(r requirement) (int, string) {
		switch p := r.permission(); {
		case r.access == "super_admin" && !superAdmin:
			return denies("super_admin")
		case p != "" && !slices.Contains(permissions, p):
			return denies(p)
		}
		return 0, ""
	}
}

// asKey returns the refusal of an API key that has the scopes for which held is
// true.
func asKey(held func(scope string) bool) func(requirement) (int, string) {
	return func(r requirement) (int, string) {
		switch r.access {
		case "session_only":
			return 403, "Permission denied: requires a signed-in user"
		case "super_admin":
			return denies("super_admin")
		}
		for part := range strings.SplitSeq(r.scopes, "+") {
			alternatives := strings.Split(strings.Trim(part, "()"), "|")
			if part != "" && !slices.ContainsFunc(alternatives, held) {
				return denies(alternatives[0])
			}
		}
		return 0, ""
	}
}

// mutatesElsewhere refuses mutations whose X-Org-Id names no workspace of the
// caller.
func mutatesElsewhere(refusal func(requirement) (int, string)) func(requirement) (int, string) {
	return func(r requirement) (int, string) {
		if r.method != http.MethodGet {
			return 403, "names no workspace of yours"
		}
		return refusal(r)
	}
}

// proof is a kind of credential by which users prove who they are. Each kind has
// all columns of users.
type proof struct {
	name string
	of   func(t testing.TB, env *localtest.Env, email string) string
	// bad return credentials that are no longer valid, by what has become of them.
	bad map[string]func(t testing.TB, env *localtest.Env, email string) string
}

var proofs = []proof{signInToken, accessToken}

var signInToken = proof{
	name: "sign-in token",
	of:   func(t testing.TB, env *localtest.Env, email string) string { return env.SignIn(t, email) },
	bad: map[string]func(t testing.TB, env *localtest.Env, email string) string{
		"expired": func(t testing.TB, env *localtest.Env, email string) string {
			env.Clock.Advance(-25 * time.Hour)
			defer env.Clock.Advance(25 * time.Hour)
			return env.SignIn(t, email)
		},
	},
}

func login(t testing.TB, env *localtest.Env, email string) string {
	t.Helper()
	return env.Do(t, env.SignIn(t, email), "POST", "/auth/login", object{"email": email}).Require(t, 200).String(t, "access_token")
}

var accessToken = proof{
	name: "access token",
	of:   login,
	bad: map[string]func(t testing.TB, env *localtest.Env, email string) string{
		"expired": func(t testing.TB, env *localtest.Env, email string) string {
			env.Clock.Advance(-25 * time.Hour)
			defer env.Clock.Advance(25 * time.Hour)
			return login(t, env, email)
		},
		"revoked": func(t testing.TB, env *localtest.Env, email string) string {
			token := login(t, env, email)
			env.Do(t, token, "POST", "/auth/logout", nil).Require(t, 200)
			return token
		},
	},
}

// callers returns the columns of the matrix: everyone who may call workspace A,
// or tries to.
func callers(t testing.TB, env *localtest.Env) []caller {
	t.Helper()
	fixed := func(credential string) func() string { return func() string { return credential } }
	out := []caller{
		{name: "nobody", credential: fixed(""), refusal: refuses(401, "Not authenticated")},
		{name: "a malformed key", credential: fixed("svc_nonsense"), refusal: refuses(401, "invalid, expired or revoked credential")},
		{name: "an unsigned token", credential: fixed("eyJhbGciOiJub25lIn0.e30."), refusal: refuses(401, "invalid, expired or revoked credential")},
		{name: "an unknown token", credential: fixed("token-of-nobody"), refusal: refuses(401, "invalid, expired or revoked credential")},
		{name: "an expired key", credential: fixed(env.ExpiredKey(t, env.A)), refusal: refuses(401, "invalid, expired or revoked credential")},
		{name: "a revoked key", credential: fixed(env.RevokedKey(t, env.A)), refusal: refuses(401, "invalid, expired or revoked credential")},
	}
	for _, p := range proofs {
		out = append(out, users(t, env, p)...)
	}
	return append(out, keys(t, env)...)
}

// users returns the columns of signed-in users.
func users(t testing.TB, env *localtest.Env, p proof) []caller {
	t.Helper()
	all, byRole := []string{}, map[string][]string{}
	for permission, roles := range holders(t) {
		all = append(all, permission)
		for _, role := range roles {
			byRole[role] = append(byRole[role], permission)
		}
	}
	user := func(name, email, org string, refusal func(requirement) (int, string)) caller {
		return caller{
			name: name + " with a " + p.name, org: org, refusal: refusal,
			credential: func() string { return p.of(t, env, email) },
		}
	}
	selecting := func(header string, c caller) caller {
		c.name, c.header = c.name+" and X-Org-Id", header
		return c
	}
	var out []caller
	for _, role := range tenant.Roles() {
		env.User(t, env.A, role) // makes them a member
		out = append(out, user("a "+string(role), localtest.UserEmail(env.A, role), env.A.OrgID, asUser(byRole[string(role)], false)))
	}
	for bad, of := range p.bad {
		stale := user("an owner", env.A.Owner, "", refuses(401, "invalid, expired or revoked credential"))
		stale.name += ", " + bad
		credential := of(t, env, env.A.Owner)
		stale.credential = func() string { return credential }
		out = append(out, stale)
	}
	owner := asUser(all, false)
	stranger := user("the owner of B", env.B.Owner, env.B.OrgID, owner)
	elsewhere, lost := stranger, user("the owner of A", env.A.Owner, env.A.OrgID, mutatesElsewhere(owner))
	elsewhere.refusal = mutatesElsewhere(owner)
	return append(out,
		suspended(t, env, p),
		user("a user without a workspace", "nobody@elsewhere.test", "", asUser(nil, false)),
		user("an administrator of the platform", localtest.SuperAdmin, "", asUser(nil, true)),
		stranger,
		selecting(env.A.OrgID, elsewhere),
		selecting("org_nonsense", lost),
		selecting(env.A.OrgID, user("the owner of A", env.A.Owner, env.A.OrgID, owner)),
	)
}

// suspended returns the column of an owner who is suspended after they signed
// in.
func suspended(t testing.TB, env *localtest.Env, p proof) caller {
	t.Helper()
	email := strings.ReplaceAll(p.name, " ", "-") + "@suspended.test"
	member(t, env, email, tenant.Owner)
	credential := p.of(t, env, email)
	suspend(t, env, email)
	return caller{
		name: "a suspended owner with a " + p.name, credential: func() string { return credential },
		refusal: refuses(403, "access to this workspace is suspended"),
	}
}

// keys returns the columns of API keys: with each scope alone, with all but
// each, with each beside admin, with all, and of workspace B.
func keys(t testing.TB, env *localtest.Env) []caller {
	t.Helper()
	all := []string{tenant.ScopeAdmin}
	for permission := range holders(t) {
		all = append(all, permission)
	}
	slices.Sort(all)
	key := func(name string, scopes ...string) caller {
		secret := env.Key(t, env.A, scopes...)
		return caller{
			name: "a key " + name, org: env.A.OrgID, credential: func() string { return secret },
			refusal: asKey(func(scope string) bool { return slices.Contains(scopes, scope) }),
		}
	}
	everything := asKey(func(string) bool { return true })
	out := []caller{
		{name: "a key with full access", org: env.A.OrgID, credential: func() string { return env.A.Key }, refusal: everything},
		{
			name: "a key of B and X-Org-Id", org: env.B.OrgID, header: env.A.OrgID,
			credential: func() string { return env.B.Key }, refusal: everything,
		},
		{
			name: "a key of a suspended user", credential: keyOfSuspended(t, env),
			refusal: refuses(403, "access to this workspace is suspended"),
		},
	}
	for i, scope := range all {
		out = append(out,
			key("with the scope "+scope, scope),
			key("with all scopes but "+scope, slices.Delete(slices.Clone(all), i, i+1)...))
		if scope != tenant.ScopeAdmin {
			out = append(out, key("with the scopes admin and "+scope, tenant.ScopeAdmin, scope))
		}
	}
	return out
}

// keyOfSuspended returns a key whose maker has been suspended since.
func keyOfSuspended(t testing.TB, env *localtest.Env) func() string {
	t.Helper()
	email := localtest.UserEmail(env.A, "maker")
	member(t, env, email, tenant.Owner)
	secret := env.Do(t, env.SignIn(t, email), "POST", "/api-keys", object{"name": "k", "scopes": []string{}}).Require(t, 200).String(t, "key")
	suspend(t, env, email)
	return func() string { return secret }
}

func member(t testing.TB, env *localtest.Env, email string, role tenant.Role) {
	t.Helper()
	_, err := identity.AddMember(t.Context(), env.Deps.Table, env.Clock.Now(), env.A.OrgID, email, role)
	require.NoError(t, err)
}

func suspend(t testing.TB, env *localtest.Env, email string) {
	t.Helper()
	require.NoError(t, identity.SuspendMember(t.Context(), env.Deps.Table, env.Clock.Now(), env.A.OrgID, email, true))
}

// ownToken are operations without access control that check a token of their own.
var ownToken = []string{"attempt-start", "attempt-logs", "attempt-complete"}

var parameter = regexp.MustCompile(`\{(\w+)\}`)

// TestAccessMatrix sends every operation as every caller, without a body and
// with names of nothing. An allowed request is any that is answered neither 401
// nor 403; refused ones change nothing.
func TestAccessMatrix(t *testing.T) {
	t.Parallel()
	env := open(t)
	all, columns := requirements(t), callers(t, env)
	credentials := make([]string, len(columns))
	for i, c := range columns {
		credentials[i] = c.credential()
	}
	var faults []string
	cells := 0
	send := func(refused bool) {
		for _, op := range catalog.Operations(catalog.All()) {
			r, found := requirementOf(t, all, op)
			if !found || slices.Contains(ownToken, op.ID) {
				continue
			}
			path := parameter.ReplaceAllStringFunc(op.Path, func(name string) string {
				return cmp.Or(map[string]string{"{org_id}": env.A.OrgID, "{email}": "nobody@elsewhere.test"}[name], "nothing")
			})
			for i, c := range columns {
				status, detail := c.expect(r, env.A.OrgID)
				if (status != 0) != refused {
					continue
				}
				credential := credentials[i]
				if !refused { // an allowed request may have revoked it
					credential = c.credential()
				}
				cells++
				res := env.Send(t, localtest.Request{Credential: credential, OrgID: c.header, Method: op.Method, Path: path})
				if fault := wrong(res, status, detail); fault != "" {
					faults = append(faults, fmt.Sprintf("%s %s as %s: %s", op.Method, op.Path, c.name, fault))
				}
			}
		}
	}
	before := env.Stored(t)
	send(true)
	assert.Equal(t, before, env.Stored(t), "refused requests change nothing")
	send(false)
	assert.Empty(t, strings.Join(faults[:min(len(faults), 50)], "\n"), "%d of %d cells are wrong", len(faults), cells)
	assert.Greater(t, cells, 5000)
}

// wrong returns what is wrong with a response, "" for nothing.
func wrong(res *localtest.Response, status int, detail string) string {
	refused := res.Code == http.StatusUnauthorized || res.Code == http.StatusForbidden
	switch {
	case res.Code >= 500:
	case status == 0 && !refused:
		return ""
	case status == notFoundOrForbidden && (res.Code == http.StatusForbidden || res.Code == http.StatusNotFound):
		return ""
	case status == res.Code && strings.Contains(string(res.Body), detail):
		return ""
	}
	return fmt.Sprintf("want %d %s, got %d %.200s", status, detail, res.Code, res.Body)
}
