package flows_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/flows"
	"millrace/localstack/proof/localtest"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
	"millrace/shared/run/registry"
	"millrace/shared/run/registry/registrytest"
)

type object = map[string]any

func storeOf(env *localtest.Env) registry.Store {
	return registrytest.Store(env.Deps.Table, env.Deps.Blob, env.Clock)
}

// registration returns a body of POST /flows.
func registration(flow, version, spec string, more ...object) object {
	body := object{"flow_name": flow, "flow_version": version, "flow_spec": json.RawMessage(spec)}
	for _, m := range more {
		for k, v := range m {
			body[k] = v
		}
	}
	return body
}

func register(t *testing.T, env *localtest.Env, flow, version, spec string, more ...object) *localtest.Response {
	t.Helper()
	return env.Do(t, env.A.Key, "POST", "/flows", registration(flow, version, spec, more...))
}

// audited calls do and asserts the number of audit entries that it adds in
// workspace A.
func audited(t *testing.T, env *localtest.Env, n int, do func()) {
	t.Helper()
	before := env.AuditCount(t, env.A.OrgID)
	do()
	assert.Equal(t, n, env.AuditCount(t, env.A.OrgID)-before, "audit entries")
}

func TestAccess(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, flows.Spec)
	body := registration("etl", "1", registrytest.Spec(1))
	for id, op := range map[string]struct {
		path string
		body any
	}{
		"flows-register":     {"/flows", body},
		"flows-list":         {"/flows", nil},
		"flows-delete":       {"/flows/etl", nil},
		"flows-latest":       {"/flows/etl/latest", nil},
		"flows-versions":     {"/flows/etl/versions", nil},
		"flows-version":      {"/flows/etl/1", nil},
		"flows-draft-create": {"/flows/etl/draft", nil},
		"flows-draft-read":   {"/flows/etl/draft/source", nil},
		"flows-draft-write":  {"/flows/etl/draft/source", object{"source": object{}}},
	} {
		env.CheckAccess(t, id, op.path, op.body)
	}
}

func TestLatestVersionIsNewestRegistration(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, flows.Spec)
	audited(t, env, 3, func() {
		for i, version := range []string{"2.0.1", "10", "1-rc.1_b"} {
			res := register(t, env, "etl", version, registrytest.Spec(i), object{"description": "number " + version, "tags": object{"n": version}}).Require(t, 200)
			assert.Equal(t, version, res.String(t, "flow_version"))
		}
	})
	latest := env.Do(t, env.A.Key, "GET", "/flows/etl/latest", nil).Require(t, 200)
	assert.Equal(t, "1-rc.1_b", latest.String(t, "flow_version"))
	assert.Equal(t, true, latest.Get(t, "is_latest"))
	assert.Equal(t, "transform", latest.String(t, "tasks", 0, "type"))
	assert.JSONEq(t, registrytest.Spec(2), string(must(json.Marshal(latest.Get(t, "flow_spec")))))

	var versions []string
	for _, item := range env.Do(t, env.A.Key, "GET", "/flows/etl/versions", nil).Require(t, 200).Items(t) {
		versions = append(versions, item.(object)["flow_version"].(string))
	}
	assert.Equal(t, []string{"1-rc.1_b", "10", "2.0.1"}, versions)

	one := env.Do(t, env.A.Key, "GET", "/flows/etl/10", nil).Require(t, 200)
	assert.Equal(t, false, one.Get(t, "is_latest"))
	assert.Equal(t, "number 10", one.String(t, "description"))
	env.Do(t, env.A.Key, "GET", "/flows/etl/11", nil).Require(t, 404)
	env.Do(t, env.A.Key, "GET", "/flows/none/latest", nil).Require(t, 404)
	env.Do(t, env.A.Key, "GET", "/flows/none/versions", nil).Require(t, 404)

	item := env.Do(t, env.A.Key, "GET", "/flows", nil).Require(t, 200)
	assert.Equal(t, "1-rc.1_b", item.String(t, "items", 0, "latest_version"))
	assert.Equal(t, json.Number("3"), item.Get(t, "items", 0, "version_count"))
	assert.Equal(t, "number 1-rc.1_b", item.String(t, "items", 0, "description"))
}

// TestADryRunStoresNothing checks versions before their code is uploaded.
func TestADryRunStoresNothing(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, flows.Spec)
	dry := object{"dry_run": true, "code_hash": "abc"}
	audited(t, env, 0, func() {
		res := register(t, env, "etl", "1", registrytest.PythonSpec, dry).Require(t, 200)
		assert.Equal(t, true, res.Get(t, "dry_run"))
		assert.Equal(t, "1", res.String(t, "flow_version"))
		register(t, env, "etl", "1", registrytest.PythonSpec, object{"dry_run": false}).Require(t, 422)
		register(t, env, "etl", "latest", registrytest.Spec(1), dry).Require(t, 422)
		register(t, env, "etl", "1", `{"tasks": []}`, dry).Require(t, 422)
		register(t, env, "etl", "1", registrytest.Spec(1), dry, object{"execution_mode": "huge"}).Require(t, 400)
		env.Do(t, env.A.Key, "GET", "/flows/etl/1", nil).Require(t, 404)
		assert.Empty(t, env.Do(t, env.A.Key, "GET", "/flows", nil).Require(t, 200).Items(t))
	})
	// What is there: the same content is a success, other content is refused as it would be.
	first := register(t, env, "etl", "1", registrytest.Spec(1)).Require(t, 200)
	assert.NotContains(t, string(first.Body), "dry_run")
	env.Clock.Advance(time.Minute)
	again := register(t, env, "etl", "1", registrytest.Spec(1), dry).Require(t, 200)
	assert.Equal(t, first.String(t, "registered_at"), again.String(t, "registered_at"))
	register(t, env, "etl", "1", registrytest.Spec(2), dry).Require(t, 409)
	missing := registry.ArtifactURI(env.A.OrgID + "/artifacts/etl/1/01NONE.zip")
	res := register(t, env, "etl", "2", registrytest.PythonSpec, dry, object{"artifact_store_uri": missing})
	assert.GreaterOrEqual(t, res.Code, 403, "code that is named is checked")
	env.Do(t, env.A.Key, "GET", "/flows/etl/2", nil).Require(t, 404)
}

// TestADryRunChecksADeployment as the completion of an upload would make it.
func TestADryRunChecksADeployment(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, flows.Spec)
	required := `{"parameters":{"type":"object","properties":{"day":{"type":"string"}},"required":["day"]},"tasks":[{"name":"a","type":"python","entrypoint":"flow:a"}]}`
	check := func(spec string, more ...object) *localtest.Response {
		return register(t, env, "etl", "2", spec, append([]object{{"dry_run": true, "deployment_name": "d"}}, more...)...)
	}
	store := registrytest.Store(env.Deps.Table, env.Deps.Blob, env.Clock)
	registrytest.Register(t, store, env.A.OrgID, "etl", "1", registrytest.Spec(1), "")
	audited(t, env, 0, func() {
		made := check(registrytest.PythonSpec, object{"environment": "prod", "schedule": "30 6 * * *", "timezone": "Asia/Tokyo"}).Require(t, 200)
		assert.Equal(t, object{
			"deployment_name": "d", "deployment_version": json.Number("1"), "environment": "prod", "environment_created": true,
			"next_run_epoch": made.Get(t, "deployment", "next_run_epoch"),
		}, made.Get(t, "deployment"))
		at, err := made.Get(t, "deployment", "next_run_epoch").(json.Number).Int64()
		require.NoError(t, err)
		assert.Equal(t, "21:30", time.Unix(at, 0).UTC().Format("15:04"))
		for name, more := range map[string]object{
			"cron": {"schedule": "61 6 * * *"}, "never": {"schedule": "0 0 30 2 *"}, "zone": {"schedule": "@daily", "timezone": "Mars/Base"},
			"environment": {"environment": "a#b"}, "name": {"deployment_name": ""}, "no deployment": {"deployment_name": nil, "schedule": "@daily"},
			"no check": {"dry_run": false},
		} {
			assert.Equal(t, 422, check(registrytest.PythonSpec, more).Code, name)
		}
		refused := check(required, object{"schedule": "@daily"}).Require(t, 422)
		assert.Contains(t, refused.String(t, "detail", 0, "msg"), "the runs of the deployment's schedule would be refused")
		check(required).Require(t, 200)
		_, err = registry.GetDeployment(t.Context(), env.Deps.Table, env.A.OrgID, "d")
		assert.Equal(t, errs.NotFound, errs.CodeOf(err))
	})
	registrytest.Deploy(t, store, env.A.OrgID, "d", "etl", "1", "default")
	again := check(registrytest.PythonSpec).Require(t, 200)
	assert.Equal(t, []any{json.Number("2"), "default"}, []any{again.Get(t, "deployment", "deployment_version"), again.Get(t, "deployment", "environment")})
}

func TestForeignArtifactIs403(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, flows.Spec)
	foreign := registrytest.PutArtifact(t, env.Deps.Blob, env.B.OrgID, "etl", "1", map[string]string{"flow.py": "x = 1"})
	own := registrytest.PutArtifact(t, env.Deps.Blob, env.A.OrgID, "etl", "1", map[string]string{"flow.py": "x = 1"})
	audited(t, env, 0, func() {
		for _, uri := range []string{
			foreign, registry.ArtifactURI(foreign), env.A.OrgID + "/../" + foreign, "s3://else/where.zip", env.A.OrgID + "/traces/a/b/c",
		} {
			res := register(t, env, "etl", "1", registrytest.PythonSpec, object{"artifact_store_uri": uri})
			assert.Equal(t, 403, res.Code, "%s: %s", uri, res.Body)
		}
		missing := register(t, env, "etl", "1", registrytest.PythonSpec, object{"artifact_store_uri": strings.Replace(own, "01TEST", "01NONE", 1)})
		missing.Require(t, 422)
	})
	res := register(t, env, "etl", "1", registrytest.PythonSpec, object{"artifact_store_uri": registry.ArtifactURI(own)}).Require(t, 200)
	assert.Equal(t, registry.ArtifactURI(own), res.String(t, "artifact_store_uri"))
}

func TestRegisteringAgain(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, flows.Spec)
	with := object{"description": "d", "tags": object{"a": "b"}, "execution_mode": "small", "code_hash": "abc"}
	first := register(t, env, "etl", "1", registrytest.Spec(1), with).Require(t, 200)
	register(t, env, "etl", "2", registrytest.Spec(2)).Require(t, 200)
	audited(t, env, 0, func() {
		again := register(t, env, "etl", "1", " "+registrytest.Spec(1)+"\n", with).Require(t, 200)
		assert.JSONEq(t, string(first.Body), string(again.Body))
		for field, other := range map[string]any{
			"description": "e", "tags": object{"a": "c"}, "execution_mode": "large", "code_hash": "abd",
			"flow_spec": json.RawMessage(registrytest.Spec(3)), "default_executor": "http",
		} {
			res := register(t, env, "etl", "1", registrytest.Spec(1), with, object{field: other})
			assert.Equal(t, 409, res.Code, "%s: %s", field, res.Body)
		}
	})
	assert.Equal(t, "2", env.Do(t, env.A.Key, "GET", "/flows/etl/latest", nil).String(t, "flow_version"))
}

func TestRegistrationErrorListsAllViolations(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, flows.Spec)
	many := object{}
	for i := range 51 {
		many[fmt.Sprint(i)] = ""
	}
	long := strings.Repeat("x", 300)
	for name, c := range map[string]struct {
		body any
		locs []string
	}{
		"nothing":         {object{}, []string{"[body flow_name]", "[body flow_version]", "[body flow_spec]"}},
		"names":           {registration("a#b", "../1", registrytest.Spec(1)), []string{"[body flow_name]", "[body flow_version]"}},
		"long names":      {registration(strings.Repeat("a", 129), "1", registrytest.Spec(1)), []string{"[body flow_name]"}},
		"reserved":        {registration("etl", "latest", registrytest.Spec(1)), []string{"[body flow_version]"}},
		"number version":  {object{"flow_name": "etl", "flow_version": 1, "flow_spec": json.RawMessage(registrytest.Spec(1))}, []string{"[body flow_version]"}},
		"unknown field":   {registration("etl", "1", registrytest.Spec(1), object{"colour": "red"}), []string{"[body colour]"}},
		"spec is text":    {registration("etl", "1", `"tasks"`), []string{"[body flow_spec]"}},
		"spec is null":    {registration("etl", "1", `null`), []string{"[body flow_spec]"}},
		"many tags":       {registration("etl", "1", registrytest.Spec(1), object{"tags": many}), []string{"[body tags]"}},
		"long tags":       {registration("etl", "1", registrytest.Spec(1), object{"tags": object{"k": long}}), []string{"[body tags k]"}},
		"tag of a number": {registration("etl", "1", registrytest.Spec(1), object{"tags": object{"k": 1}}), []string{"[body tags k]"}},
		"no code":         {registration("etl", "1", registrytest.PythonSpec), []string{"[body artifact_store_uri]"}},
		"tasks": {registration("etl", "1", `{"tasks":[{"name":"a","type":"nonsense"},{"name":"1x","type":"wait","config":{"seconds":1}},{"name":"b","type":"wait","config":{"seconds":1},"depends_on":["zz"]}]}`),
			[]string{"[body flow_spec tasks 0 type]", "[body flow_spec tasks 1 name]", "[body flow_spec tasks 2 depends_on 0]"}},
		"cycle": {registration("etl", "1", `{"tasks":[{"name":"a","type":"wait","config":{"seconds":1},"depends_on":["b"]},{"name":"b","type":"wait","config":{"seconds":1},"depends_on":["a"]}]}`),
			nil},
		"spec and tags": {registration("etl", "1", `{"tasks":[{"name":"a","type":"nonsense"}]}`, object{"tags": many}),
			[]string{"[body tags]", "[body flow_spec tasks 0 type]"}},
	} {
		t.Run(name, func(t *testing.T) {
			audited(t, env, 0, func() {
				res := env.Do(t, env.A.Key, "POST", "/flows", c.body).Require(t, 422)
				var locs []string
				for _, d := range res.Get(t, "detail").([]any) {
					detail := d.(object)
					locs = append(locs, fmt.Sprint(detail["loc"]))
					assert.NotEmpty(t, detail["msg"])
					assert.NotEmpty(t, detail["type"])
					assert.Contains(t, detail, "input")
				}
				if c.locs == nil {
					assert.Contains(t, string(res.Body), "DependencyCycleError")
				} else {
					assert.ElementsMatch(t, c.locs, locs)
				}
			})
		})
	}
	for _, broken := range []string{"", "{", "[]", `{"flow_name":"a","flow_name":"b"}`, "{}{}", "\xff"} {
		res := env.Do(t, env.A.Key, "POST", "/flows", broken)
		assert.Equal(t, 422, res.Code, "%q: %s", broken, res.Body)
	}
	env.Do(t, env.A.Key, "POST", "/flows", registration("etl", "1", `{"tasks":[{"name":"a","type":"transform","config":{"expression":"'`+strings.Repeat("y", 5<<20)+`'"}}]}`)).Require(t, 413)
	assert.Empty(t, env.Do(t, env.A.Key, "GET", "/flows", nil).Items(t))
}

func TestNamesHaveAtMost128Characters(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, flows.Spec)
	name := strings.Repeat("n", 128)
	register(t, env, name, name, registrytest.Spec(1)).Require(t, 200)
	env.Do(t, env.A.Key, "GET", "/flows/"+name+"/versions", nil).Require(t, 200)
	for _, res := range []*localtest.Response{
		register(t, env, name+"n", "1", registrytest.Spec(1)),
		env.Do(t, env.A.Key, "GET", "/flows/"+name+"n/versions", nil),
		env.Do(t, env.A.Key, "GET", "/flows?environment="+name+"n", nil),
	} {
		detail := res.Require(t, 422).Get(t, "detail").([]any)
		require.Len(t, detail, 1)
		assert.Equal(t, "string_too_long", detail[0].(object)["type"])
		assert.Equal(t, "String should have at most 128 characters", detail[0].(object)["msg"])
	}
}

func TestUnsupportedRuntimeIs400(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, flows.Spec)
	audited(t, env, 0, func() {
		for field, value := range map[string]string{"default_executor": "cobol", "execution_mode": "giant"} {
			res := register(t, env, "etl", "1", registrytest.Spec(1), object{field: value}).Require(t, 400)
			assert.Contains(t, res.String(t, "detail"), "Unsupported runtime")
		}
	})
	res := register(t, env, "etl", "1", registrytest.Spec(1)).Require(t, 200)
	assert.Equal(t, "nano", res.String(t, "execution_mode"))
	assert.Equal(t, "python", res.String(t, "default_executor"))
}

func TestListPaginatesByNameAndFiltersByEnvironment(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, flows.Spec)
	s := storeOf(env)
	var all, inProd []string
	for i := range 23 {
		flow := fmt.Sprintf("flow-%02d", i)
		registrytest.Register(t, s, env.A.OrgID, flow, "1", registrytest.Spec(i), "")
		all = append(all, flow)
		for d := range i % 4 { // none, one, two or three deployments, some in other environments
			environment := "prod"
			if d == 1 {
				environment = "dev"
			}
			registrytest.Deploy(t, s, env.A.OrgID, fmt.Sprintf("d%d-%s", d, flow), flow, "1", environment)
		}
		if i%4 > 0 {
			inProd = append(inProd, flow)
		}
	}
	registrytest.Register(t, s, env.B.OrgID, "flow-05", "1", registrytest.Spec(0), "")
	registrytest.Deploy(t, s, env.B.OrgID, "d", "flow-05", "1", "prod")

	for query, want := range map[string][]string{
		"": all, "limit=1": all, "limit=7": all, "limit=23": all, "limit=500": all,
		"environment=prod": inProd, "environment=prod&limit=1": inProd, "environment=prod&limit=4": inProd,
		"environment=empty": nil,
	} {
		var got []string
		token, pages := "", 0
		for {
			path := "/flows?" + query
			if token != "" {
				path += "&next_token=" + url.QueryEscape(token)
			}
			res := env.Do(t, env.A.Key, "GET", path, nil).Require(t, 200)
			for _, item := range res.Items(t) {
				got = append(got, item.(object)["flow_name"].(string))
			}
			next, more := res.Object(t)["next_token"]
			if !more {
				break
			}
			token = next.(string)
			require.Less(t, pages, 60)
			pages++
		}
		assert.Equal(t, want, got, query)
	}
	for _, limit := range []string{"0", "501", "-1", "x", "1.5"} {
		env.Do(t, env.A.Key, "GET", "/flows?limit="+limit, nil).Require(t, 422)
	}
}

func TestBadCursorIs400(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, flows.Spec)
	s := storeOf(env)
	for _, w := range []localtest.Workspace{env.A, env.B} {
		for i := range 3 {
			registrytest.Register(t, s, w.OrgID, fmt.Sprint("f", i), "1", registrytest.Spec(i), "")
		}
	}
	token := env.Do(t, env.A.Key, "GET", "/flows?limit=1", nil).String(t, "next_token")
	for name, c := range map[string]struct{ key, query string }{
		"nonsense":          {env.A.Key, "next_token=nonsense"},
		"changed":           {env.A.Key, "next_token=" + string(token[0]^1) + token[1:]},
		"other filter":      {env.A.Key, "environment=prod&next_token=" + token},
		"another workspace": {env.B.Key, "next_token=" + token},
	} {
		res := env.Do(t, c.key, "GET", "/flows?"+c.query, nil)
		assert.Equal(t, 400, res.Code, "%s: %s", name, res.Body)
	}
}

func TestDeletionNeedsFlowsWriteNotFlowsDelete(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, flows.Spec)
	register(t, env, "etl", "1", registrytest.Spec(1)).Require(t, 200)
	onlyDelete := env.Key(t, env.A, string(tenant.FlowsDelete), string(tenant.FlowsRead))
	env.Do(t, onlyDelete, "DELETE", "/flows/etl", nil).Require(t, 403)
	developer := env.User(t, env.A, tenant.Developer) // has flows.write, but not flows.delete
	audited(t, env, 1, func() {
		res := env.Do(t, developer, "DELETE", "/flows/etl", nil).Require(t, 200)
		assert.Equal(t, "deleted", res.String(t, "status"))
	})
	env.Do(t, developer, "DELETE", "/flows/etl", nil).Require(t, 404)
}

func TestDeletionErrorNamesDependents(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, flows.Spec)
	s := storeOf(env)
	for i := range 30 {
		registrytest.Register(t, s, env.A.OrgID, "etl", fmt.Sprint(i), registrytest.Spec(i), "")
	}
	registrytest.Deploy(t, s, env.A.OrgID, "nightly", "etl", "3", "prod")
	audited(t, env, 0, func() {
		res := env.Do(t, env.A.Key, "DELETE", "/flows/etl", nil).Require(t, 409)
		assert.Contains(t, res.String(t, "detail"), "deployment 'nightly'")
	})
	err := s.DeleteDeployment(registrytest.As(env.A.OrgID), "nightly")
	require.NoError(t, err)
	res := env.Do(t, env.A.Key, "DELETE", "/flows/etl", nil).Require(t, 200)
	assert.Equal(t, json.Number("30"), res.Get(t, "deleted_versions"))
	env.Do(t, env.A.Key, "GET", "/flows/etl/3", nil).Require(t, 404)
	env.Do(t, env.A.Key, "GET", "/flows/etl/versions", nil).Require(t, 404)

	// The name is free: version 3 again, with other content.
	register(t, env, "etl", "3", registrytest.Spec(99)).Require(t, 200)
	assert.Len(t, env.Do(t, env.A.Key, "GET", "/flows/etl/versions", nil).Items(t), 1)
	assert.JSONEq(t, registrytest.Spec(99), string(must(json.Marshal(env.Do(t, env.A.Key, "GET", "/flows/etl/3", nil).Get(t, "flow_spec")))))
}

func TestWorkspacesDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, flows.Spec)
	register(t, env, "etl", "1", registrytest.Spec(1)).Require(t, 200)
	env.Do(t, env.A.Key, "POST", "/flows/etl/draft", nil).Require(t, 200)
	audited(t, env, 0, func() {
		for _, r := range []struct {
			method, path string
			body         any
		}{
			{"GET", "/flows/etl/latest", nil}, {"GET", "/flows/etl/versions", nil}, {"GET", "/flows/etl/1", nil},
			{"DELETE", "/flows/etl", nil}, {"GET", "/flows/etl/draft/source", nil},
			{"PUT", "/flows/etl/draft/source", object{"source": object{"a.py": "stolen"}}},
		} {
			res := env.Send(t, localtest.Request{Credential: env.B.Key, OrgID: env.A.OrgID, Method: r.method, Path: r.path, Body: r.body})
			assert.Equal(t, 404, res.Code, "%s %s: %s", r.method, r.path, res.Body)
		}
		assert.Empty(t, env.Do(t, env.B.Key, "GET", "/flows", nil).Items(t))
		draft := env.Do(t, env.B.Key, "POST", "/flows/etl/draft", nil).Require(t, 200)
		assert.Nil(t, draft.Get(t, "flow_spec"), "the draft of one's own flow of that name is empty")
		env.Do(t, env.B.Key, "POST", "/flows", registration("etl", "1", registrytest.Spec(2))).Require(t, 200)
	})
	assert.JSONEq(t, registrytest.Spec(1), string(must(json.Marshal(env.Do(t, env.A.Key, "GET", "/flows/etl/1", nil).Get(t, "flow_spec")))))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// crash repeats a call. It makes each write of the table fail in turn, before
// and after it is executed, and calls check each time.
func crash(t *testing.T, prepare func(*testing.T, *localtest.Env), call func(*testing.T, *localtest.Env) *localtest.Response, check func(*testing.T, *localtest.Env, *localtest.Response)) {
	t.Helper()
	for _, fault := range []registrytest.Fault{registrytest.Before, registrytest.After} {
		for n := 0; ; n++ {
			var faults *registrytest.Faults
			env := localtest.Open(t, localtest.Options{Wrap: registrytestWrap(&faults)}, flows.Spec)
			prepare(t, env)
			faults.Break(n, fault)
			first := call(t, env)
			if !faults.Heal() {
				first.Require(t, http.StatusOK)
				require.Positive(t, n, "the call wrote nothing")
				break
			}
			res := call(t, env)
			check(t, env, res)
		}
	}
}
