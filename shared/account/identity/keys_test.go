package identity_test

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/localtest"
	"millrace/shared/account/identity"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

func TestSecretIsNotStored(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	key, secret, err := identity.NewKeys(env.Deps.Records()).Create(owner(env.A), identity.KeyRequest{Name: "k"})
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

func TestConcurrentDeletesDeleteKeyOnce(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	key, _, err := identity.NewKeys(env.Deps.Records()).Create(owner(env.A), identity.KeyRequest{Name: "k"})
	require.NoError(t, err)
	before := env.AuditCount(t, env.A.OrgID)
	codes := make([]errs.Code, 8)
	var wg sync.WaitGroup
	for i := range codes {
		wg.Go(func() {
			codes[i] = errs.CodeOf(identity.NewKeys(env.Deps.Records()).Delete(owner(env.A), key.KeyID))
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

func TestKeyOfAnotherWorkspaceIsNotFound(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	keys, err := identity.NewKeys(env.Deps.Records()).List(owner(env.B))
	require.NoError(t, err)
	require.Len(t, keys, 1)
	err = identity.NewKeys(env.Deps.Records()).Delete(owner(env.A), keys[0].KeyID)
	assert.Equal(t, errs.NotFound, errs.CodeOf(err))
	env.Clock.Advance(0)
	_, err = authenticator(t, env, env.Deps.Table, nil).Authenticate(t.Context(), env.B.Key, "", false)
	assert.NoError(t, err)
}

func TestMembershipIsStoredByWorkspaceAndUser(t *testing.T) {
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

// TestKeyStoredByAnEarlierVersion: a key whose items have neither a revision nor
// what is empty is listed, lets its owner in and is deleted, with the audit entry
// that it always had.
func TestKeyStoredByAnEarlierVersion(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	org, keys := env.A.OrgID, identity.NewKeys(env.Deps.Records())
	env.Clock.Advance(time.Second)
	made, secret, err := keys.Create(owner(env.A), identity.KeyRequest{Name: "old"})
	require.NoError(t, err)
	list, lookup := table.Key{PK: org + "#keys", SK: made.KeyID}, table.Key{PK: "key#" + made.Hash, SK: "key"}
	for _, key := range []table.Key{list, lookup} {
		item, err := env.Deps.Table.Get(t.Context(), key, table.Consistent)
		require.NoError(t, err)
		delete(item, "revision")
		names := slices.Sorted(maps.Keys(item))
		assert.Equal(t, []string{"created_at", "created_by", "hash", "key_id", "key_prefix", "name", "org_id", "pk", "sk"}, names)
		require.NoError(t, env.Deps.Table.Put(t.Context(), table.Put{Item: item}))
	}
	_, err = authenticator(t, env, env.Deps.Table, nil).Authenticate(t.Context(), secret, "", true)
	require.NoError(t, err)
	all, err := keys.List(owner(env.A))
	require.NoError(t, err)
	require.Len(t, all, 2)
	assert.Equal(t, made.KeyID, all[0].KeyID, "the newest first")
	assert.NotNil(t, all[0].LastUsedAt)

	env.Clock.Advance(time.Second)
	require.NoError(t, keys.Delete(owner(env.A), made.KeyID))
	for _, key := range []table.Key{list, lookup} {
		_, err = env.Deps.Table.Get(t.Context(), key, table.Consistent)
		assert.ErrorIs(t, err, table.ErrNotFound)
	}
	entries := env.Audit(t, org)
	gone := entries[len(entries)-1]
	assert.Equal(t, []string{"delete", "api_key", made.KeyID, ""}, []string{gone.Action, gone.ResourceType, gone.ResourceID, gone.After})
	assert.JSONEq(t, `{"key_id":"`+made.KeyID+`","key_prefix":"`+made.Prefix+`","name":"old","scopes":[],"created_at":"`+made.CreatedAt.String()+
		`","created_by":"`+env.A.Owner+`","expires_at":null}`, gone.Before)
}
