package orgs_test

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/auth"
	"millrace/functions/orgs"
	"millrace/localstack/proof/localtest"
	"millrace/shared/account/identity"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/table"
)

func members(w localtest.Workspace) string { return "/orgs/" + w.OrgID + "/members" }

func roleOf(w localtest.Workspace, email string) string {
	return members(w) + "/" + url.PathEscape(email) + "/role"
}

func TestMemberAccess(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, orgs.Spec)
	env.CheckAccess(t, "orgs-members", members(env.A), nil)
	env.CheckAccess(t, "orgs-add-member", members(env.A), object{"email": "new@a.test", "role": "viewer"})
	env.CheckAccess(t, "orgs-change-role", roleOf(env.A, env.A.Owner), object{"role": "owner"})
	env.CheckAccess(t, "orgs-roles", "/orgs/"+env.A.OrgID+"/roles", nil)
}

func TestAddedMemberActsInTheWorkspace(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, orgs.Spec, auth.Spec)
	env.Clock.Advance(time.Second)
	owner, before := env.SignIn(t, env.A.Owner), env.AuditCount(t, env.A.OrgID)
	made := env.Do(t, owner, "POST", members(env.A), object{"email": "New@A.test", "role": "developer"}).Require(t, 200).Object(t)
	at, err := time.Parse(time.RFC3339, made["added_at"].(string))
	require.NoError(t, err)
	assert.WithinDuration(t, env.Clock.Now(), at, time.Minute)
	assert.Equal(t, object{
		"org_id": env.A.OrgID, "email": "new@a.test", "role": "developer", "suspended": false,
		"added_at": made["added_at"], "added_by": env.A.Owner,
	}, made)
	added := env.SignIn(t, "new@a.test")
	assert.Equal(t, "developer", env.Do(t, added, "GET", "/me", nil).String(t, "role"))

	list := env.Do(t, added, "GET", members(env.A), nil).Require(t, 200)
	require.Len(t, list.Items(t), 2)
	assert.Equal(t, env.A.Owner, list.String(t, "items", 0, "email"), "the earliest added first")
	assert.Equal(t, made, list.Get(t, "items", 1))

	res := env.Do(t, owner, "POST", members(env.A), object{"email": "new@a.test", "role": "viewer"}).Require(t, 409)
	assert.Equal(t, "new@a.test is already a member of this workspace", res.String(t, "detail"))
	entries := env.Audit(t, env.A.OrgID)
	require.Len(t, entries, before+1)
	assert.Equal(t, "member create new@a.test", entries[before].ResourceType+" "+entries[before].Action+" "+entries[before].ResourceID)
	assert.JSONEq(t, `{"email":"new@a.test","role":"developer"}`, entries[before].After)
}

func TestChangedRoleHoldsFromTheNextRequest(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, orgs.Spec, auth.Spec)
	developer, email := env.User(t, env.A, tenant.Developer), localtest.UserEmail(env.A, tenant.Developer)
	env.Do(t, developer, "GET", "/api-keys", nil).Require(t, 403)
	env.Clock.Advance(time.Second) // entries of one millisecond are in no order
	before := env.AuditCount(t, env.A.OrgID)
	for range 2 { // the second one changes nothing
		res := env.Do(t, env.A.Key, "PATCH", roleOf(env.A, email), object{"role": "admin"}).Require(t, 200)
		assert.Equal(t, "admin", res.String(t, "role"))
	}
	env.Do(t, developer, "GET", "/api-keys", nil).Require(t, 200)
	assert.Equal(t, "admin", env.Do(t, developer, "GET", "/orgs", nil).String(t, "items", 0, "role"))
	entries := env.Audit(t, env.A.OrgID)
	require.Len(t, entries, before+1)
	assert.Equal(t, "member update_role "+email, entries[before].ResourceType+" "+entries[before].Action+" "+entries[before].ResourceID)
	assert.Contains(t, entries[before].Before, `"developer"`)
	assert.Contains(t, entries[before].After, `"admin"`)
	env.Do(t, env.A.Key, "PATCH", roleOf(env.A, email), object{"role": "viewer"}).Require(t, 200)
	env.Do(t, developer, "GET", "/api-keys", nil).Require(t, 403)
}

func TestNobodyGrantsOrChangesAboveTheirOwnRole(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, orgs.Spec)
	env.User(t, env.A, tenant.Viewer)
	viewer, secondAdmin := localtest.UserEmail(env.A, tenant.Viewer), "second@a.test"
	env.Do(t, env.A.Key, "POST", members(env.A), object{"email": secondAdmin, "role": "admin"}).Require(t, 200)
	scoped := env.Key(t, env.A, "admin", "admin.members")
	for name, c := range map[string]struct {
		who, method, path, role string
		code                    int
		detail                  string
	}{
		"admin adds an owner":      {env.User(t, env.A, tenant.Admin), "POST", members(env.A), "owner", 403, "Permission denied: an admin cannot grant the role owner"},
		"key adds an owner":        {scoped, "POST", members(env.A), "owner", 403, "Permission denied: an admin cannot grant the role owner"},
		"admin makes an owner":     {env.User(t, env.A, tenant.Admin), "PATCH", roleOf(env.A, viewer), "owner", 403, "Permission denied: an admin cannot grant the role owner"},
		"admin demotes the owner":  {env.User(t, env.A, tenant.Admin), "PATCH", roleOf(env.A, env.A.Owner), "viewer", 403, "Permission denied: owner@a.test is an owner, which is above you"},
		"key demotes the owner":    {scoped, "PATCH", roleOf(env.A, env.A.Owner), "admin", 403, "Permission denied: owner@a.test is an owner, which is above you"},
		"admin demotes an admin":   {env.User(t, env.A, tenant.Admin), "PATCH", roleOf(env.A, secondAdmin), "viewer", 200, ""},
		"key with full access may": {env.A.Key, "POST", members(env.A), "owner", 200, ""},
	} {
		before := env.AuditCount(t, env.A.OrgID)
		body := object{"role": c.role}
		if c.method == "POST" {
			body["email"] = "third@a.test"
		}
		res := env.Do(t, c.who, c.method, c.path, body)
		require.Equal(t, c.code, res.Code, "%s: %s", name, res.Body)
		if c.code != 200 {
			assert.Equal(t, c.detail, res.String(t, "detail"), name)
			assert.Equal(t, before, env.AuditCount(t, env.A.OrgID), name)
		}
	}
}

func TestLastOwnerStays(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, orgs.Spec)
	refused := func() {
		t.Helper()
		res := env.Do(t, env.A.Key, "PATCH", roleOf(env.A, env.A.Owner), object{"role": "admin"}).Require(t, 409)
		assert.Equal(t, "owner@a.test is the last owner of this workspace: make another member an owner first", res.String(t, "detail"))
	}
	refused()
	env.Do(t, env.SignIn(t, env.A.Owner), "PATCH", roleOf(env.A, env.A.Owner), object{"role": "owner"}).Require(t, 200)

	// An owner whose access is suspended cannot manage the workspace.
	env.Do(t, env.A.Key, "POST", members(env.A), object{"email": "second@a.test", "role": "owner"}).Require(t, 200)
	require.NoError(t, identity.SuspendMember(t.Context(), env.Deps.Table, env.Clock.Now(), env.A.OrgID, "second@a.test", true))
	refused()
	require.NoError(t, identity.SuspendMember(t.Context(), env.Deps.Table, env.Clock.Now(), env.A.OrgID, "second@a.test", false))
	env.Do(t, env.SignIn(t, env.A.Owner), "PATCH", roleOf(env.A, env.A.Owner), object{"role": "viewer"}).Require(t, 200)
	env.Do(t, env.SignIn(t, env.A.Owner), "PATCH", roleOf(env.A, env.A.Owner), object{"role": "owner"}).Require(t, 403)
}

// TestConcurrentDemotionsLeaveAnOwner demotes all owners of a workspace at the
// same time.
func TestConcurrentDemotionsLeaveAnOwner(t *testing.T) {
	t.Parallel()
	for n := range 5 {
		env := localtest.New(t, orgs.Spec)
		owners := []string{env.A.Owner}
		for i := range n % 2 * 2 {
			owners = append(owners, fmt.Sprintf("more%d@a.test", i))
		}
		owners = append(owners, "second@a.test")
		for _, email := range owners[1:] {
			env.Do(t, env.A.Key, "POST", members(env.A), object{"email": email, "role": "owner"}).Require(t, 200)
		}
		codes := make([]int, len(owners))
		var wg sync.WaitGroup
		for i, email := range owners {
			wg.Go(func() {
				codes[i] = env.Do(t, env.A.Key, "PATCH", roleOf(env.A, email), object{"role": "viewer"}).Code
			})
		}
		wg.Wait()
		left, err := identity.Members(t.Context(), env.Deps.Table, env.A.OrgID)
		require.NoError(t, err)
		remaining, refused := 0, 0
		for i := range left {
			if left[i].Role == tenant.Owner {
				remaining++
			}
			if codes[i] == 409 {
				refused++
			}
		}
		assert.Equal(t, 1, remaining, "%v", codes)
		assert.Equal(t, 1, refused, "%v", codes)
	}
}

// demotion demotes another owner right before a transaction is sent, once.
type demotion struct {
	table.Table
	once *sync.Once
	then func()
}

func (d demotion) Transact(ctx context.Context, writes ...table.Write) error {
	for _, w := range writes {
		if _, ok := w.(table.Check); ok {
			d.once.Do(d.then)
		}
	}
	return d.Table.Transact(ctx, writes...)
}

// TestOwnerWhoIsDemotedMeanwhileDoesNotCount checks the condition of a
// demotion: the owner who was to remain is one no longer.
func TestOwnerWhoIsDemotedMeanwhileDoesNotCount(t *testing.T) {
	t.Parallel()
	var raced demotion
	env := localtest.Open(t, localtest.Options{Wrap: func(inner table.Table) table.Table {
		raced = demotion{Table: inner, once: &sync.Once{}}
		return &raced
	}}, orgs.Spec)
	env.Do(t, env.A.Key, "POST", members(env.A), object{"email": "second@a.test", "role": "owner"}).Require(t, 200)
	raced.then = func() {
		_, err := identity.ChangeRole(t.Context(), raced.Table, env.Clock.Now, env.A.OrgID, "second@a.test", tenant.Viewer,
			func(identity.Membership) error { return nil })
		assert.NoError(t, err)
	}
	env.Do(t, env.A.Key, "PATCH", roleOf(env.A, env.A.Owner), object{"role": "viewer"}).Require(t, 409)
	left, err := identity.Memberships(t.Context(), env.Deps.Table, env.A.Owner)
	require.NoError(t, err)
	assert.Equal(t, tenant.Owner, left[0].Role)
}

// TestPathNamesTheWorkspaceOfTheRequest checks the order 401, 403, 422, 404 on
// paths that name a workspace.
func TestPathNamesTheWorkspaceOfTheRequest(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, orgs.Spec)
	env.Clock.Advance(time.Second)
	second := env.Workspace(t, "Second", env.A.Owner)
	owner, other := env.SignIn(t, env.A.Owner), env.SignIn(t, env.B.Owner)
	const mismatch = "Permission denied: the path names a workspace in which this credential does not act"
	send := func(credential, header, method, path string, body any) *localtest.Response {
		return env.Send(t, localtest.Request{Credential: credential, OrgID: header, Method: method, Path: path, Body: body})
	}
	for name, c := range map[string]struct {
		credential, header string
		org                string
		code               int
	}{
		"nobody":                        {"", "", env.A.OrgID, 401},
		"own, selected first":           {owner, "", env.A.OrgID, 200},
		"own, selected by the path":     {owner, "", second.OrgID, 200},
		"own, selected by the header":   {owner, second.OrgID, second.OrgID, 200},
		"own, but the header differs":   {owner, env.A.OrgID, second.OrgID, 403},
		"another's":                     {other, "", env.A.OrgID, 403},
		"another's, named twice":        {other, env.A.OrgID, env.A.OrgID, 403},
		"unknown":                       {owner, "", "org_unknown", 403},
		"key, own":                      {env.A.Key, "", env.A.OrgID, 200},
		"key, own, the header is wrong": {env.A.Key, env.B.OrgID, env.A.OrgID, 200},
		"key, another's":                {env.B.Key, env.A.OrgID, env.A.OrgID, 403},
		"key, its creator's other one":  {env.A.Key, "", second.OrgID, 403},
		"user without a workspace":      {env.SignIn(t, "nobody@nowhere.test"), "", env.A.OrgID, 403},
		"platform administrator":        {env.SignIn(t, localtest.SuperAdmin), "", env.A.OrgID, 403},
	} {
		for _, path := range []string{"/members", "/roles"} {
			res := send(c.credential, c.header, "GET", "/orgs/"+c.org+path, nil)
			require.Equal(t, c.code, res.Code, "%s: %s", name, res.Body)
			if c.code == 403 {
				assert.Equal(t, mismatch, res.String(t, "detail"), name)
			}
		}
		mutation := send(c.credential, c.header, "PATCH", "/orgs/"+c.org+"/members/nobody@a.test/role", object{"role": "nonsense"})
		want := c.code
		if want == 200 {
			want = 422
		}
		assert.Equal(t, want, mutation.Code, "%s: an invalid body is found after the access was checked: %s", name, mutation.Body)
		if want == 422 {
			send(c.credential, c.header, "PATCH", "/orgs/"+c.org+"/members/nobody@a.test/role", object{"role": "viewer"}).Require(t, 404)
		}
	}
}

func TestInvalidMembersAreRejected(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, orgs.Spec)
	before := env.AuditCount(t, env.A.OrgID)
	for _, body := range []string{
		``, `{}`, `{"email":"x@a.test"}`, `{"role":"viewer"}`, `{"email":"no address","role":"viewer"}`, `{"email":"","role":"viewer"}`,
		`{"email":"x@a.test","role":"Owner"}`, `{"email":"x@a.test","role":""}`, `{"email":"x@a.test","role":"viewer","more":1}`, `{"email":7,"role":"viewer"}`,
	} {
		env.Do(t, env.A.Key, "POST", members(env.A), body).Require(t, 422)
	}
	env.Do(t, env.A.Key, "PATCH", members(env.A)+"/no%20address/role", object{"role": "viewer"}).Require(t, 422)
	env.Do(t, env.A.Key, "PATCH", members(env.A)+"/x@a.test/role", object{"role": "viewer"}).Require(t, 404)
	env.Do(t, env.A.Key, "PATCH", members(env.A)+"/x@a.test/role", object{"role": ""}).Require(t, 422)
	assert.Equal(t, before, env.AuditCount(t, env.A.OrgID))
}

func TestRolesAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, orgs.Spec)
	list := env.Do(t, env.User(t, env.A, tenant.Viewer), "GET", "/orgs/"+env.A.OrgID+"/roles", nil).Require(t, 200)
	var want []any
	for _, role := range tenant.Roles() {
		permissions := []any{}
		for _, p := range role.Permissions() {
			permissions = append(permissions, string(p))
		}
		want = append(want, object{"role": string(role), "permissions": permissions})
	}
	assert.Equal(t, want, list.Items(t))
	assert.Len(t, list.Get(t, "items", 0, "permissions"), 35)
	assert.Len(t, list.Get(t, "items", 3, "permissions"), 8)
}
