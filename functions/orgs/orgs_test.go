package orgs_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/auth"
	"millrace/functions/orgs"
	"millrace/localstack/proof/localtest"
	"millrace/shared/account/identity"
	"millrace/shared/account/tenant"
)

type object = map[string]any

func TestAccess(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, orgs.Spec)
	env.CheckAccess(t, "orgs-list", "/orgs", nil)
	env.CheckAccess(t, "orgs-create", "/orgs", object{"name": "New"})
}

func TestUserWithoutWorkspaceCreatesOne(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, orgs.Spec, auth.Spec)
	token := env.SignIn(t, "New@Example.com")
	assert.Equal(t, []any{}, env.Do(t, token, "GET", "/orgs", nil).Require(t, 200).Items(t))
	env.Do(t, token, "GET", "/api-keys", nil).Require(t, 403)

	made := env.Do(t, token, "POST", "/orgs", object{"name": "  Mine "}).Require(t, 200).Object(t)
	assert.Equal(t, "Mine", made["name"])
	assert.Equal(t, "owner", made["role"])
	org := made["org_id"].(string)
	assert.True(t, strings.HasPrefix(org, "org_"))
	at, err := time.Parse("2006-01-02T15:04:05.000Z", made["created_at"].(string))
	require.NoError(t, err)
	assert.WithinDuration(t, env.Clock.Now(), at, time.Minute)

	audited := env.Audit(t, org)
	require.Len(t, audited, 1)
	assert.Equal(t, "create", audited[0].Action)
	assert.Equal(t, "new@example.com", audited[0].ActorEmail)
	assert.Contains(t, audited[0].After, "Mine")

	list := env.Do(t, token, "GET", "/orgs", nil).Require(t, 200)
	assert.Equal(t, []any{made}, list.Items(t))
	assert.Equal(t, org, env.Do(t, token, "GET", "/me", nil).String(t, "org_id"))
	env.Do(t, token, "GET", "/api-keys", nil).Require(t, 200)
}

func TestListReturnsCallersWorkspaces(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, orgs.Spec)
	viewer := env.User(t, env.A, tenant.Viewer)
	env.Clock.Advance(time.Second)
	second := env.Do(t, viewer, "POST", "/orgs", object{"name": "Second"}).Require(t, 200).String(t, "org_id")

	list := env.Do(t, viewer, "GET", "/orgs", nil).Require(t, 200)
	require.Len(t, list.Items(t), 2)
	assert.Equal(t, env.A.OrgID, list.String(t, "items", 0, "org_id"), "the earliest joined first")
	assert.Equal(t, env.A.Name, list.String(t, "items", 0, "name"))
	assert.Equal(t, "viewer", list.String(t, "items", 0, "role"))
	assert.Equal(t, second, list.String(t, "items", 1, "org_id"))
	assert.Equal(t, "owner", list.String(t, "items", 1, "role"))
	assert.NotContains(t, string(list.Body), env.B.OrgID)

	ctx := tenant.With(context.Background(), tenant.Principal{Email: env.A.Owner})
	require.NoError(t, identity.SuspendWorkspace(ctx, env.Deps.Table, env.Clock.Now(), second, true))
	list = env.Do(t, viewer, "GET", "/orgs", nil).Require(t, 200)
	assert.Equal(t, false, list.Get(t, "items", 0, "suspended"))
	assert.Equal(t, true, list.Get(t, "items", 1, "suspended"))
}

func TestKeyListsOnlyItsWorkspace(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, orgs.Spec)
	env.Workspace(t, "Also the owner's", env.A.Owner)
	for _, key := range []string{env.A.Key, env.Key(t, env.A, "admin")} {
		list := env.Do(t, key, "GET", "/orgs", nil).Require(t, 200)
		require.Len(t, list.Items(t), 1)
		assert.Equal(t, env.A.OrgID, list.String(t, "items", 0, "org_id"))
		assert.Empty(t, list.String(t, "items", 0, "role"))
	}
	made := env.Do(t, env.A.Key, "POST", "/orgs", object{"name": "By key"}).Require(t, 200).String(t, "org_id")
	members, err := identity.Members(t.Context(), env.Deps.Table, made)
	require.NoError(t, err)
	require.Len(t, members, 1)
	assert.Equal(t, env.A.Owner, members[0].Email)
	assert.Len(t, env.Do(t, env.A.Key, "GET", "/orgs", nil).Items(t), 1)
}

func TestInvalidBodiesAreRejected(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, orgs.Spec)
	for _, body := range []string{
		``, `{}`, `{"name":""}`, `{"name":"  "}`, `{"name":"a\nb"}`, `{"name":"a\u001b[31m"}`, `{"name":7}`, `{"name":"x","role":"owner"}`, `{"name":"` + strings.Repeat("x", 101) + `"}`,
	} {
		env.Do(t, env.A.Key, "POST", "/orgs", body).Require(t, 422)
	}
	ms, err := identity.Memberships(t.Context(), env.Deps.Table, env.A.Owner)
	require.NoError(t, err)
	assert.Len(t, ms, 1)
}
