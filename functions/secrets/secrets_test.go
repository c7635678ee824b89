package secrets_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/secrets"
	"millrace/localstack/proof/localtest"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/platform/vault"
	"millrace/shared/run/secret"
)

type object = map[string]any

const canary = "kanarienvogel-4711"

// open opens an Env with the environments prod and test.
func open(t *testing.T) *localtest.Env {
	t.Helper()
	env := localtest.New(t, secrets.Spec)
	env.Environments(t, env.A, "prod", "test")
	return env
}

func TestAccess(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, secrets.Spec)
	env.CheckAccess(t, "secrets-create", "/secrets", object{"name": "TOKEN", "value": "x"})
	env.CheckAccess(t, "secrets-list", "/secrets", nil)
	env.CheckAccess(t, "secrets-copy", "/secrets/copy", object{"name": "TOKEN", "source_environment": nil, "target_environment": "prod"})
	env.CheckAccess(t, "secrets-get", "/secrets/TOKEN", nil)
	env.CheckAccess(t, "secrets-update", "/secrets/TOKEN", object{"value": "y"})
	env.CheckAccess(t, "secrets-patch", "/secrets/TOKEN", object{"description": "y"})
	env.CheckAccess(t, "secrets-delete", "/secrets/TOKEN", nil)
	env.CheckAccess(t, "secrets-value", "/secrets/TOKEN/value", nil)
}

func TestSecretLifecycle(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, secrets.Spec)
	env.Clock.Advance(time.Minute) // entries of one millisecond are not ordered
	before := env.AuditCount(t, env.A.OrgID)
	made := env.Do(t, env.A.Key, "POST", "/secrets", object{"name": "TOKEN", "value": canary, "tags": object{"team": "etl"}}).Require(t, 201)
	now := made.String(t, "created_at")
	_, err := time.Parse("2006-01-02T15:04:05.000Z", now)
	require.NoError(t, err)
	actor := made.String(t, "created_by")
	assert.Equal(t, object{
		"name": "TOKEN", "environment": nil, "description": "", "tags": object{"team": "etl"}, "version": json.Number("1"),
		"created_at": now, "created_by": actor, "updated_at": now, "updated_by": actor,
	}, made.Object(t))
	assert.JSONEq(t, string(made.Body), string(env.Do(t, env.A.Key, "GET", "/secrets/TOKEN", nil).Require(t, 200).Body))

	env.Clock.Advance(time.Minute)
	second := env.Do(t, env.A.Key, "PUT", "/secrets/TOKEN", object{"value": canary + "2"}).Require(t, 200)
	assert.Equal(t, json.Number("2"), second.Get(t, "version"))
	assert.Equal(t, now, second.String(t, "created_at"))
	assert.NotEqual(t, now, second.String(t, "updated_at"))
	env.Clock.Advance(time.Minute)
	value := env.Do(t, env.A.Key, "GET", "/secrets/TOKEN/value", nil).Require(t, 200)
	env.Clock.Advance(time.Minute)
	assert.Equal(t, object{"name": "TOKEN", "environment": nil, "version": json.Number("2"), "value": canary + "2"}, value.Object(t))
	patched := env.Do(t, env.A.Key, "PATCH", "/secrets/TOKEN", object{"description": "of the warehouse"}).Require(t, 200)
	assert.Equal(t, "of the warehouse", patched.String(t, "description"))
	assert.Equal(t, object{"team": "etl"}, patched.Get(t, "tags"), "what is absent stays")
	assert.Equal(t, json.Number("2"), patched.Get(t, "version"))
	env.Do(t, env.A.Key, "PATCH", "/secrets/TOKEN", object{"description": "of the warehouse"}).Require(t, 200)

	env.Clock.Advance(time.Minute)
	gone := env.Do(t, env.A.Key, "DELETE", "/secrets/TOKEN", nil).Require(t, 200)
	assert.Equal(t, object{"status": "deleted", "name": "TOKEN", "environment": nil}, gone.Object(t))
	for _, path := range []string{"/secrets/TOKEN", "/secrets/TOKEN/value"} {
		env.Do(t, env.A.Key, "GET", path, nil).Require(t, 404)
	}
	env.Do(t, env.A.Key, "DELETE", "/secrets/TOKEN", nil).Require(t, 404)
	env.Do(t, env.A.Key, "PUT", "/secrets/TOKEN", object{"value": "x"}).Require(t, 404)

	var actions []string
	for _, entry := range env.Audit(t, env.A.OrgID)[before:] {
		actions = append(actions, entry.Action)
		assert.Equal(t, "secret", entry.ResourceType)
		assert.Equal(t, "TOKEN", entry.ResourceID)
		data, err := json.Marshal(entry)
		require.NoError(t, err)
		assert.NotContains(t, string(data), canary)
		assert.NotContains(t, string(data), "sealed")
	}
	assert.Equal(t, []string{"create", "update", "read_value", "update_metadata", "delete"}, actions)
}

func TestEnvironmentTakesPrecedenceOverWorkspace(t *testing.T) {
	t.Parallel()
	env := open(t)
	create := func(name string, environment any, value string) {
		env.Do(t, env.A.Key, "POST", "/secrets", object{"name": name, "environment": environment, "value": value}).Require(t, 201)
	}
	create("TOKEN", nil, "own")
	create("TOKEN", "prod", "of prod")
	create("ONLY", "prod", "only")
	create("BOTH", "prod", "p")
	create("BOTH", "test", "t")
	r := secret.Resolver{Table: env.Deps.Table, Vault: env.Deps.Vault}
	for _, test := range []struct{ environment, name, want string }{
		{"prod", "TOKEN", "of prod"}, {"test", "TOKEN", "own"}, {"default", "TOKEN", "own"}, {"prod", "ONLY", "only"}, {"test", "ONLY", ""},
	} {
		got, err := r.Value(t.Context(), env.A.OrgID, test.environment, test.name)
		assert.Equal(t, test.want, got)
		if test.want == "" {
			assert.Equal(t, errs.NotFound, errs.CodeOf(err))
		}
		_, err = r.Value(t.Context(), env.B.OrgID, test.environment, test.name)
		assert.Equal(t, errs.NotFound, errs.CodeOf(err), "another workspace's")
	}

	value := func(query string) *localtest.Response {
		return env.Do(t, env.A.Key, "GET", "/secrets/"+query, nil)
	}
	assert.Equal(t, "own", value("TOKEN/value").Require(t, 200).String(t, "value"))
	assert.Equal(t, "of prod", value("TOKEN/value?environment=prod").Require(t, 200).String(t, "value"))
	value("TOKEN/value?environment=test").Require(t, 404)
	assert.Equal(t, "only", value("ONLY/value").Require(t, 200).String(t, "value"))
	several := value("BOTH/value").Require(t, 422)
	assert.Contains(t, several.String(t, "detail", 0, "msg"), "prod, test")
	env.Do(t, env.A.Key, "PUT", "/secrets/BOTH", object{"value": "new"}).Require(t, 422)
	env.Do(t, env.A.Key, "PUT", "/secrets/BOTH?environment=test", object{"value": "new", "environment": "prod"}).Require(t, 422)
	env.Do(t, env.A.Key, "PUT", "/secrets/BOTH", object{"value": "new", "environment": "test"}).Require(t, 200)
	assert.Equal(t, "p", value("BOTH/value?environment=prod").String(t, "value"))
	env.Do(t, env.A.Key, "DELETE", "/secrets/BOTH?environment=prod", nil).Require(t, 200)
	assert.Equal(t, "new", value("BOTH/value").Require(t, 200).String(t, "value"), "the only one that is left")

	names := func(query string) (out []string) {
		for _, item := range env.Do(t, env.A.Key, "GET", "/secrets"+query, nil).Require(t, 200).Items(t) {
			environment, _ := item.(object)["environment"].(string)
			out = append(out, item.(object)["name"].(string)+"@"+environment)
		}
		return out
	}
	assert.Equal(t, []string{"BOTH@test", "ONLY@prod", "TOKEN@", "TOKEN@prod"}, names(""))
	assert.Equal(t, []string{"ONLY@prod", "TOKEN@prod"}, names("?environment=prod"))
	assert.Equal(t, []string{"ONLY@prod"}, names("?environment=prod&limit=1"))
	assert.Equal(t, []string(nil), names("?environment=nowhere"))
	assert.Empty(t, env.Do(t, env.B.Key, "GET", "/secrets", nil).Items(t))
}

func TestCopyIsSealedForItsTarget(t *testing.T) {
	t.Parallel()
	env := open(t)
	env.Do(t, env.A.Key, "POST", "/secrets", object{"name": "T", "value": canary, "environment": "test", "description": "d", "tags": object{"a": "b"}}).Require(t, 201)
	body := object{"name": "T", "source_environment": "test", "target_environment": "prod"}
	made := env.Do(t, env.A.Key, "POST", "/secrets/copy", body).Require(t, 201)
	assert.Equal(t, "prod", made.String(t, "environment"))
	assert.Equal(t, "d", made.String(t, "description"))
	assert.Equal(t, object{"a": "b"}, made.Get(t, "tags"))
	assert.Equal(t, canary, env.Do(t, env.A.Key, "GET", "/secrets/T/value?environment=prod", nil).String(t, "value"))
	env.Do(t, env.A.Key, "POST", "/secrets/copy", body).Require(t, 409)
	body["overwrite"] = true
	assert.Equal(t, json.Number("2"), env.Do(t, env.A.Key, "POST", "/secrets/copy", body).Require(t, 201).Get(t, "version"))
	env.Do(t, env.A.Key, "POST", "/secrets/copy", object{"name": "T", "source_environment": "test", "target_environment": nil}).Require(t, 201)
	env.Do(t, env.A.Key, "POST", "/secrets/copy", object{"name": "T", "source_environment": "test", "target_environment": "test"}).Require(t, 422)
	env.Do(t, env.A.Key, "POST", "/secrets/copy", object{"name": "NONE", "source_environment": "test", "target_environment": "prod"}).Require(t, 404)
	env.Do(t, env.A.Key, "POST", "/secrets/copy", object{"name": "T", "target_environment": "prod"}).Require(t, 422)

	// A sealed value that is moved to another record does not open.
	items, err := table.Load[secret.Secret](t.Context(), env.Deps.Table, table.Key{PK: env.A.OrgID + "#secrets", SK: "T#test"}, table.Consistent)
	require.NoError(t, err)
	for name, moved := range map[string]secret.Secret{
		"another name":        {Name: "U", Environment: items.Environment, Sealed: items.Sealed},
		"another environment": {Name: "T", Sealed: items.Sealed},
	} {
		_, err := moved.Open(t.Context(), env.Deps.Vault, env.A.OrgID)
		require.ErrorIs(t, err, vault.ErrRejected, name)
	}
	_, err = items.Open(t.Context(), env.Deps.Vault, env.B.OrgID)
	require.ErrorIs(t, err, vault.ErrRejected, "another workspace")
}

func TestInvalidBodiesAreRejected(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, secrets.Spec)
	before := env.AuditCount(t, env.A.OrgID)
	many := object{}
	for i := range 51 {
		many[strings.Repeat("k", i+1)] = "v"
	}
	for name, body := range map[string]any{
		"no name":         object{"value": "x"},
		"no value":        object{"name": "A"},
		"an empty value":  object{"name": "A", "value": ""},
		"a large value":   object{"name": "A", "value": strings.Repeat(canary, 4000)},
		"many bytes":      object{"name": "A", "value": strings.Repeat("é", 32769)},
		"a number":        object{"name": "A", "value": 7},
		"a leading digit": object{"name": "1A", "value": "x"},
		"a hyphen":        object{"name": "A-B", "value": "x"},
		"a path":          object{"name": "A/B", "value": "x"},
		"a separator":     object{"name": "A#prod", "value": "x"},
		"an environment":  object{"name": "A", "value": "x", "environment": "a#b"},
		"no environment":  object{"name": "A", "value": "x", "environment": ""},
		"many tags":       object{"name": "A", "value": "x", "tags": many},
		"an extra field":  object{"name": "A", "value": canary, "version": 7},
	} {
		res := env.Do(t, env.A.Key, "POST", "/secrets", body)
		assert.Equal(t, 422, res.Code, name)
		assert.NotContains(t, string(res.Body), canary, name)
	}
	env.Do(t, env.A.Key, "POST", "/secrets", object{"name": "A", "value": strings.Repeat("é", 32768)}).Require(t, 201)
	env.Do(t, env.A.Key, "POST", "/secrets", object{"name": "A", "value": "x"}).Require(t, 409)
	env.Do(t, env.A.Key, "PUT", "/secrets/A", object{"value": strings.Repeat("é", 32769)}).Require(t, 422)
	env.Do(t, env.A.Key, "PATCH", "/secrets/A", object{"tags": many}).Require(t, 422)
	env.Do(t, env.A.Key, "GET", "/secrets?limit=0", nil).Require(t, 422)
	env.Do(t, env.A.Key, "GET", "/secrets/A%23prod", nil).Require(t, 422)
	assert.Equal(t, before+1, env.AuditCount(t, env.A.OrgID))
}

// TestReadingValueRequiresPermission: permission to run flows does not include
// reading the secrets that they use.
func TestReadingValueRequiresPermission(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, secrets.Spec)
	env.Do(t, env.A.Key, "POST", "/secrets", object{"name": "A", "value": canary}).Require(t, 201)
	for who, want := range map[string]int{
		env.User(t, env.A, tenant.Viewer): 403, env.User(t, env.A, tenant.Developer): 200,
		env.Key(t, env.A, "runs.trigger", "flows.write"): 403, env.Key(t, env.A, "secrets.read"): 200, env.B.Key: 404,
	} {
		env.Do(t, who, "GET", "/secrets/A/value", nil).Require(t, want)
	}
}
