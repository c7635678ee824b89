package identity_test

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/localtest"
	"millrace/shared/account/identity"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

func TestTheSecretIsStoredNowhere(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	key, secret, err := identity.CreateKey(owner(env.A), env.Deps.Table, env.Clock.Now(), identity.KeyRequest{OrgID: env.A.OrgID, Name: "k"})
	require.NoError(t, err)
	assert.Equal(t, secret[:12], key.Prefix)
	for item, err := range table.All(t.Context(), env.Deps.Table, table.Query{PK: env.A.OrgID + "#keys"}) {
		require.NoError(t, err)
		for name, v := range item {
			assert.NotContains(t, v.Str(), secret[13:], name)
		}
	}
	log, err := json.Marshal(env.Audit(t, env.A.OrgID))
	require.NoError(t, err)
	assert.NotContains(t, string(log), secret[13:])
	assert.Contains(t, string(log), key.KeyID)
}

func TestKeysAreDeletedOnceHoweverManyTry(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	key, _, err := identity.CreateKey(owner(env.A), env.Deps.Table, env.Clock.Now(), identity.KeyRequest{OrgID: env.A.OrgID, Name: "k"})
	require.NoError(t, err)
	before := env.AuditCount(t, env.A.OrgID)
	codes := make([]errs.Code, 8)
	var wg sync.WaitGroup
	for i := range codes {
		wg.Go(func() {
			codes[i] = errs.CodeOf(identity.DeleteKey(owner(env.A), env.Deps.Table, env.Clock.Now(), env.A.OrgID, key.KeyID))
		})
	}
	wg.Wait()
	count := map[errs.Code]int{}
	for _, c := range codes {
		count[c]++
	}
	assert.Equal(t, map[errs.Code]int{"": 1, errs.NotFound: 7}, count)
	assert.Equal(t, before+1, env.AuditCount(t, env.A.OrgID))
}

func TestAKeyOfAnotherWorkspaceIsNotFound(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	keys, err := identity.ListKeys(t.Context(), env.Deps.Table, env.B.OrgID)
	require.NoError(t, err)
	require.Len(t, keys, 1)
	err = identity.DeleteKey(owner(env.A), env.Deps.Table, env.Clock.Now(), env.A.OrgID, keys[0].KeyID)
	assert.Equal(t, errs.NotFound, errs.CodeOf(err))
	env.Clock.Advance(0)
	_, err = authenticator(t, env, env.Deps.Table, nil).Authenticate(t.Context(), env.B.Key, "", false)
	assert.NoError(t, err)
}

func TestMembershipsAreKeptFromBothSides(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	add := func(w localtest.Workspace, role tenant.Role) error {
		_, err := identity.AddMember(owner(w), env.Deps.Table, env.Clock.Now(), w.OrgID, "ann@example.com", role)
		return err
	}
	require.NoError(t, add(env.A, tenant.Developer))
	before := env.AuditCount(t, env.A.OrgID)
	assert.Equal(t, errs.Conflict, errs.CodeOf(add(env.A, tenant.Owner)))
	assert.Equal(t, before, env.AuditCount(t, env.A.OrgID))
	require.NoError(t, add(env.B, tenant.Viewer))

	ms, err := identity.Memberships(t.Context(), env.Deps.Table, "ann@example.com")
	require.NoError(t, err)
	require.Len(t, ms, 2)
	roles := map[string]tenant.Role{ms[0].OrgID: ms[0].Role, ms[1].OrgID: ms[1].Role}
	assert.Equal(t, map[string]tenant.Role{env.A.OrgID: tenant.Developer, env.B.OrgID: tenant.Viewer}, roles)

	members, err := identity.Members(t.Context(), env.Deps.Table, env.A.OrgID)
	require.NoError(t, err)
	got := map[string]tenant.Role{}
	for _, m := range members {
		got[m.Email] = m.Role
	}
	assert.Equal(t, map[string]tenant.Role{env.A.Owner: tenant.Owner, "ann@example.com": tenant.Developer}, got)
	_, err = identity.GetWorkspace(t.Context(), env.Deps.Table, "org_none")
	assert.Equal(t, errs.NotFound, errs.CodeOf(err))
}
