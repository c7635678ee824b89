package auth_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/auth"
	"millrace/localstack/proof/localtest"
	"millrace/shared/account/tenant"
)

type object = map[string]any

func TestAccess(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec)
	env.CheckAccess(t, "api-keys-list", "/api-keys", nil)
	env.CheckAccess(t, "api-keys-create", "/api-keys", object{"name": "k"})
	env.CheckAccess(t, "api-keys-delete", "/api-keys/key_x", nil)
	env.CheckAccess(t, "me", "/me", nil)
	env.CheckAccess(t, "users-me", "/users/me", nil)
}

func TestShapesOfCreationAndList(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec)
	before := env.AuditCount(t, env.A.OrgID)
	env.Clock.Advance(time.Second) // keys of one millisecond are in no order
	now := env.Clock.Now()

	made := env.Do(t, env.A.Key, "POST", "/api-keys", object{"name": " ci ", "expires_in_days": 30}).Require(t, 200).Object(t)
	secret := made["key"].(string)
	assert.True(t, strings.HasPrefix(secret, "svc_"))
	assert.Equal(t, secret[:12], made["key_prefix"])
	assert.Equal(t, "ci", made["name"])
	assert.Equal(t, []any{"flows.read", "runs.read"}, made["scopes"], "the default")
	expires, err := made["expires_at"].(json.Number).Int64()
	require.NoError(t, err)
	assert.InDelta(t, now.AddDate(0, 0, 30).Unix(), expires, 5)
	_, err = time.Parse("2006-01-02T15:04:05.000Z", made["created_at"].(string))
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"key_id", "key", "key_prefix", "name", "scopes", "created_at", "expires_at"}, keysOf(made))
	assert.Equal(t, before+1, env.AuditCount(t, env.A.OrgID))

	for _, entry := range env.Audit(t, env.A.OrgID) {
		data, err := json.Marshal(entry)
		require.NoError(t, err)
		assert.NotContains(t, string(data), secret[13:])
	}
	last := env.Audit(t, env.A.OrgID)[before]
	assert.Equal(t, "create", last.Action)
	assert.Equal(t, "api_key", last.ResourceType)
	assert.Equal(t, made["key_id"], last.ResourceID)

	list := env.Do(t, env.A.Key, "GET", "/api-keys", nil).Require(t, 200)
	assert.NotContains(t, string(list.Body), secret[13:])
	require.Len(t, list.Items(t), 2)
	item := list.Get(t, "items", 0).(object)
	assert.ElementsMatch(t, []string{
		"key_id", "key_prefix", "name", "scopes", "created_by", "created_at", "expires_at", "last_used_at",
	}, keysOf(item))
	assert.Equal(t, made["key_id"], item["key_id"], "the newest first")
	assert.Equal(t, env.A.Owner, item["created_by"])
	assert.Nil(t, item["last_used_at"])
	full := list.Get(t, "items", 1).(object)
	assert.Equal(t, []any{}, full["scopes"])
	assert.Nil(t, full["expires_at"])
	assert.NotNil(t, full["last_used_at"], "used for this very test")
	assert.Equal(t, before+1, env.AuditCount(t, env.A.OrgID), "reading is no mutation")
}

func keysOf(m object) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	return out
}

func TestBodiesAreChecked(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec)
	before := env.AuditCount(t, env.A.OrgID)
	for _, body := range []string{
		``, `{}`, `[]`, `null`, `{"name":1}`, `{"name":""}`, `{"name":"  "}`, `{"name":"a\u0000"}`, `{"name":"k","more":1}`, `{"name":"k","name":"l"}`,
		`{"name":"` + strings.Repeat("x", 101) + `"}`, `{"name":"k","scopes":"flows.read"}`, `{"name":"k","scopes":["flows.reed"]}`,
		`{"name":"k","scopes":["*"]}`, `{"name":"k","scopes":[""]}`, `{"name":"k","scopes":["FLOWS.READ"]}`,
		`{"name":"k","expires_in_days":0}`, `{"name":"k","expires_in_days":-1}`, `{"name":"k","expires_in_days":3651}`,
		`{"name":"k","expires_in_days":1.5}`, `{"name":"k","expires_in_days":"7"}`, `{"name":"k"} {}`,
	} {
		env.Do(t, env.A.Key, "POST", "/api-keys", body).Require(t, 422)
	}
	res := env.Do(t, env.A.Key, "POST", "/api-keys", object{"name": "k", "scopes": []string{"flows.read", "nope", "admin", "nope2"}}).Require(t, 422)
	assert.Equal(t, "nope", res.Get(t, "detail", 0, "input"))
	assert.Equal(t, []any{"body", "scopes", json.Number("3")}, res.Get(t, "detail", 1, "loc"))
	assert.Equal(t, before, env.AuditCount(t, env.A.OrgID))

	for _, body := range []string{`{"name":"k","expires_in_days":null}`, `{"name":"k","expires_in_days":3650}`, `{"name":"k","scopes":["admin","admin","runs.read"]}`} {
		env.Clock.Advance(time.Second)
		env.Do(t, env.A.Key, "POST", "/api-keys", body).Require(t, 200)
	}
	list := env.Do(t, env.A.Key, "GET", "/api-keys", nil)
	assert.Equal(t, []any{"admin", "runs.read"}, list.Get(t, "items", 0, "scopes"))
}

func TestAKeyNeverExceedsItsMaker(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec)
	owner, admin := env.SignIn(t, env.A.Owner), env.User(t, env.A, tenant.Admin)
	manager := env.Key(t, env.A, "admin", "admin.api_keys", "runs.read")
	for _, c := range []struct {
		who    string
		scopes []string
		code   int
		detail string
	}{
		{owner, []string{}, 200, ""},
		{env.A.Key, []string{}, 200, ""},
		{admin, []string{}, 403, "Permission denied: only an owner can make a key with full access"},
		{manager, []string{}, 403, "Permission denied: only an owner can make a key with full access"},
		{owner, []string{"billing.write", "admin"}, 200, ""},
		{admin, []string{"admin.members", "admin", "secrets.write"}, 200, ""},
		{admin, []string{"flows.read", "billing.read"}, 403, "Permission denied: requires 'billing.read'"},
		{admin, []string{"admin.org"}, 403, "Permission denied: requires 'admin.org'"},
		{manager, []string{"runs.read"}, 200, ""},
		{manager, []string{"admin", "admin.api_keys"}, 200, ""},
		{manager, []string{"runs.trigger"}, 403, "Permission denied: requires 'runs.trigger'"},
		{manager, nil, 403, "Permission denied: requires 'flows.read'"},
	} {
		body := object{"name": "k"}
		if c.scopes != nil {
			body["scopes"] = c.scopes
		}
		res := env.Do(t, c.who, "POST", "/api-keys", body).Require(t, c.code)
		if c.code == 403 {
			assert.Equal(t, c.detail, res.String(t, "detail"))
		}
	}
}

func TestDeletingTwiceIs404(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec)
	made := env.Do(t, env.A.Key, "POST", "/api-keys", object{"name": "k"}).Require(t, 200)
	id, secret := made.String(t, "key_id"), made.String(t, "key")
	env.Do(t, secret, "GET", "/me", nil).Require(t, 200)

	env.Do(t, env.B.Key, "DELETE", "/api-keys/"+id, nil).Require(t, 404)
	env.Do(t, secret, "GET", "/me", nil).Require(t, 200)

	before := env.AuditCount(t, env.A.OrgID)
	res := env.Do(t, env.A.Key, "DELETE", "/api-keys/"+id, nil).Require(t, 200)
	assert.Equal(t, object{"status": "deleted"}, res.Object(t))
	env.Do(t, secret, "GET", "/me", nil).Require(t, 401)
	env.Do(t, env.A.Key, "DELETE", "/api-keys/"+id, nil).Require(t, 404)
	env.Do(t, env.A.Key, "DELETE", "/api-keys/nonsense", nil).Require(t, 404)
	assert.Equal(t, before+1, env.AuditCount(t, env.A.OrgID))
}

func TestAnExpiredKeyIsRefusedAndListed(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec)
	secret := env.Do(t, env.A.Key, "POST", "/api-keys", object{"name": "k", "expires_in_days": 1}).Require(t, 200).String(t, "key")
	env.Clock.Advance(23 * time.Hour)
	env.Do(t, secret, "GET", "/me", nil).Require(t, 200)
	env.Clock.Advance(time.Hour + time.Minute)
	env.Do(t, secret, "GET", "/me", nil).Require(t, 401)
	assert.Len(t, env.Do(t, env.A.Key, "GET", "/api-keys", nil).Items(t), 2)
}

func TestAdminIsNoWildcard(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec)
	onlyAdmin := env.Key(t, env.A, "admin")
	env.Do(t, onlyAdmin, "GET", "/api-keys", nil).Require(t, 200)
	res := env.Do(t, onlyAdmin, "POST", "/api-keys", object{"name": "k"}).Require(t, 403)
	assert.Equal(t, "Permission denied: requires 'admin.api_keys'", res.String(t, "detail"))
	granular := env.Key(t, env.A, "admin.api_keys")
	res = env.Do(t, granular, "GET", "/api-keys", nil).Require(t, 403)
	assert.Equal(t, "Permission denied: requires 'admin'", res.String(t, "detail"))
	env.Do(t, env.User(t, env.A, tenant.Admin), "GET", "/api-keys", nil).Require(t, 200)
}

func TestAKeySeesItsOwnWorkspaceOnly(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec)
	for _, method := range []string{"GET", "POST"} {
		env.Send(t, localtest.Request{
			Credential: env.A.Key, OrgID: env.B.OrgID, Method: method, Path: "/api-keys", Body: object{"name": "k"},
		}).Require(t, 200)
	}
	assert.Len(t, env.Do(t, env.A.Key, "GET", "/api-keys", nil).Items(t), 2)
	assert.Len(t, env.Do(t, env.B.Key, "GET", "/api-keys", nil).Items(t), 1)
}

func TestMeTellsWhoTheCallerIs(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec)
	root := env.SignIn(t, localtest.SuperAdmin)
	for name, c := range map[string]struct {
		credential                string
		email, org, orgName, role string
		super                     bool
	}{
		"owner":                  {env.SignIn(t, env.A.Owner), env.A.Owner, env.A.OrgID, env.A.Name, "owner", false},
		"viewer":                 {env.User(t, env.B, tenant.Viewer), localtest.UserEmail(env.B, tenant.Viewer), env.B.OrgID, env.B.Name, "viewer", false},
		"key":                    {env.A.Key, env.A.Owner, env.A.OrgID, env.A.Name, "", false},
		"key with one scope":     {env.Key(t, env.A, "billing.read"), env.A.Owner, env.A.OrgID, env.A.Name, "", false},
		"user without workspace": {env.SignIn(t, "new@example.com"), "new@example.com", "", "", "", false},
		"platform administrator": {root, localtest.SuperAdmin, "", "", "", true},
	} {
		assert.Equal(t, object{"user_email": c.email, "org_id": c.org, "role": c.role},
			env.Do(t, c.credential, "GET", "/me", nil).Require(t, 200).Object(t), name)
		assert.Equal(t, object{
			"user_email": c.email, "super_admin": c.super, "org_id": c.org, "org_name": c.orgName, "role": c.role,
		}, env.Do(t, c.credential, "GET", "/users/me", nil).Require(t, 200).Object(t), name)
	}
}

func TestXOrgIdSelectsAWorkspace(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec)
	env.Clock.Advance(time.Second)
	both := env.Workspace(t, "Second", env.A.Owner)
	token := env.SignIn(t, env.A.Owner)
	me := func(org string) string {
		return env.Send(t, localtest.Request{Credential: token, OrgID: org, Method: "GET", Path: "/me"}).Require(t, 200).String(t, "org_id")
	}
	assert.Equal(t, env.A.OrgID, me(""))
	assert.Equal(t, both.OrgID, me(both.OrgID))
	assert.Equal(t, env.A.OrgID, me(env.B.OrgID), "reads fall back")
	env.Send(t, localtest.Request{
		Credential: token, OrgID: env.B.OrgID, Method: "POST", Path: "/api-keys", Body: object{"name": "k"},
	}).Require(t, 403)
}
