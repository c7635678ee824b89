package tenant_test

import (
	_ "embed"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
)

// permissions is the published table of permissions and their roles.
//
//go:embed testdata/permissions.txt
var permissions string

func TestRoles(t *testing.T) {
	t.Parallel()
	var published []tenant.Permission
	for line := range strings.Lines(permissions) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		p := tenant.Permission(fields[0])
		published = append(published, p)
		assert.True(t, tenant.KnownScope(fields[0]))
		for _, role := range tenant.Roles() {
			holds := slices.Contains(fields[1:], string(role))
			assert.Equal(t, holds, role.Has(p), "%s %s", role, p)
			assert.Equal(t, holds, slices.Contains(role.Permissions(), p), "%s %s", role, p)
		}
	}
	assert.Len(t, published, 35)
	assert.ElementsMatch(t, published, tenant.Permissions())
	assert.True(t, tenant.KnownScope(tenant.ScopeAdmin))
	assert.False(t, tenant.Role("").Has(tenant.FlowsRead))
	assert.False(t, tenant.Role("root").Has(tenant.FlowsRead))
	assert.False(t, tenant.Owner.Has("unknown"))
	assert.False(t, tenant.Owner.Has(tenant.ScopeAdmin))
	assert.False(t, tenant.KnownScope("flows.*"))
	_, ok := tenant.ParseRole("Owner")
	assert.False(t, ok)
	role, ok := tenant.ParseRole("viewer")
	assert.True(t, ok)
	assert.Equal(t, tenant.Viewer, role)
}

func TestAccess(t *testing.T) {
	t.Parallel()
	user := func(role tenant.Role) tenant.Principal { return tenant.Principal{Email: "a@b", Role: role} }
	key := func(scopes ...string) tenant.Principal { return tenant.Principal{KeyID: "k", Scopes: scopes} }
	full := tenant.Principal{KeyID: "k", FullAccess: true}
	backfill := tenant.Needs(tenant.RunsTrigger).KeysAlso("flows.write", "admin")
	members := tenant.Needs(tenant.AdminMembers).Keys("admin", "admin.members")
	for _, test := range []struct {
		name   string
		access tenant.Access
		who    tenant.Principal
		denied string // what is missing
	}{
		{"public nobody", tenant.Public, tenant.Principal{}, ""},
		{"zero", tenant.Access{}, user(tenant.Owner), "Permission denied"},
		{"authenticated user", tenant.Authenticated, user(""), ""},
		{"authenticated key", tenant.Authenticated, key("flows.read"), ""},
		{"authenticated admin scope", tenant.Authenticated.Keys("admin"), key("flows.read"), "requires 'admin'"},
		{"authenticated admin scope, user", tenant.Authenticated.Keys("admin"), user(tenant.Viewer), ""},
		{"session user", tenant.SessionOnly, user(tenant.Viewer), ""},
		{"session key", tenant.SessionOnly, full, "requires a signed-in user"},
		{"super", tenant.SuperAdmin, tenant.Principal{Email: "a", SuperAdmin: true}, ""},
		{"super owner", tenant.SuperAdmin, user(tenant.Owner), "requires 'super_admin'"},
		{"super key", tenant.SuperAdmin, tenant.Principal{KeyID: "k", SuperAdmin: true, FullAccess: true}, "requires 'super_admin'"},
		{"needs role", tenant.Needs(tenant.RunsCancel), user(tenant.Admin), ""},
		{"needs lower role", tenant.Needs(tenant.RunsCancel), user(tenant.Developer), "requires 'runs.cancel'"},
		{"needs no role", tenant.Needs(tenant.FlowsRead), user(""), "requires 'flows.read'"},
		{"needs scope", tenant.Needs(tenant.RunsCancel), key("runs.cancel"), ""},
		{"needs other scope", tenant.Needs(tenant.RunsCancel), key("admin", "runs.read"), "requires 'runs.cancel'"},
		{"full key", members, full, ""},
		{"a key's role is nothing", tenant.Needs(tenant.FlowsRead), tenant.Principal{KeyID: "k", Role: tenant.Owner}, "requires 'flows.read'"},
		{"both scopes", members, key("admin", "admin.members"), ""},
		{"admin alone", members, key("admin"), "requires 'admin.members'"},
		{"permission alone", members, key("admin.members"), "requires 'admin'"},
		{"any of, first", backfill, key("runs.trigger", "flows.write"), ""},
		{"any of, second", backfill, key("runs.trigger", "admin"), ""},
		{"any of, none", backfill, key("runs.trigger"), "requires 'flows.write'"},
		{"any of, user", backfill, user(tenant.Developer), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := test.access.Check(test.who)
			if test.denied == "" {
				require.NoError(t, err)
				return
			}
			assert.Equal(t, errs.Forbidden, errs.CodeOf(err))
			assert.ErrorContains(t, err, test.denied)
		})
	}
	assert.Equal(t, "runs.trigger+(flows.write|admin)", backfill.Scopes())
	assert.Equal(t, "admin+admin.members", members.Scopes())
	assert.Equal(t, "admin.members", members.String())
	assert.Panics(t, func() { tenant.Needs("runs.everything") })
	assert.Panics(t, func() { tenant.Authenticated.Keys("root") })
}

// TestAccessGrowsWithRights: a higher role, or a key with one more scope, never
// loses access.
func TestAccessGrowsWithRights(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		permission := rapid.SampledFrom(tenant.Permissions())
		access := tenant.Needs(permission.Draw(t, "permission"))
		roles := tenant.Roles()
		i := rapid.IntRange(1, len(roles)-1).Draw(t, "role")
		if access.Check(tenant.Principal{Role: roles[i]}) == nil {
			assert.NoError(t, access.Check(tenant.Principal{Role: roles[i-1]}))
		}
		var scopes []string
		for range rapid.IntRange(0, 5).Draw(t, "scopes") {
			scopes = append(scopes, string(permission.Draw(t, "scope")))
		}
		key := tenant.Principal{KeyID: "k", Scopes: scopes}
		assert.Equal(t, slices.Contains(scopes, string(access.Permission())), access.Check(key) == nil)
		assert.Equal(t, key.Holds(access.Permission()), access.Check(key) == nil)
	})
}

func TestContext(t *testing.T) {
	t.Parallel()
	assert.Zero(t, tenant.From(t.Context()))
	assert.Zero(t, tenant.RequestFrom(t.Context()))
	p := tenant.Principal{OrgID: "o", Email: "a@b", Scopes: []string{"x"}}
	r := tenant.Request{ID: "1", Start: time.Unix(1, 0)}
	ctx := tenant.WithRequest(tenant.With(t.Context(), p), r)
	assert.Equal(t, p, tenant.From(ctx))
	assert.Equal(t, r, tenant.RequestFrom(ctx))
	assert.Equal(t, "a@b", p.Actor())
	assert.Equal(t, "api-key:k", tenant.Principal{KeyID: "k", Email: "a@b"}.Actor())
}
