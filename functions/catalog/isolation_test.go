package catalog_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/localstack/proof/localtest"
	"millrace/shared/web/httpapi"
)

// stranger is a caller of workspace B.
type stranger struct {
	name, credential, header string
	selects                  bool // a workspace that is not the caller's, which mutations refuse
}

func strangers(t *testing.T, env *localtest.Env) []stranger {
	t.Helper()
	out := []stranger{{"a key of B", env.B.Key, "", false}, {"a key of B that selects A", env.B.Key, env.A.OrgID, false}}
	for _, p := range proofs {
		owner := p.of(t, env, env.B.Owner)
		out = append(out,
			stranger{"the owner of B with a " + p.name, owner, "", false},
			stranger{"the owner of B who selects A with a " + p.name, owner, env.A.OrgID, true})
	}
	return out
}

// ofTheirOwn are operations whose path names something that the caller may have,
// too, with what they answer of the caller's own.
var ofTheirOwn = map[string]string{
	"POST /flows/{flow_name}/draft":                          "makes a draft of the caller's own",
	"GET /audit-logs/resource/{resource_type}/{resource_id}": "lists the caller's own entries, none",
}

// TestStrangersReachNothing sends every operation with a path of names, as
// callers of workspace B, with all names of A's things: none is found, nothing
// of A's is shown and nothing of A's changes.
func TestStrangersReachNothing(t *testing.T) {
	t.Parallel()
	env, a, b := estates(t)
	w := watch(t, env)
	ops := described(t)
	slices.SortStableFunc(ops, func(x, y attackable) int { return cmp.Compare(ofTheirOwn[x.name()], ofTheirOwn[y.name()]) }) // those last
	for _, op := range ops {
		if op.public || !strings.Contains(op.path, "{") {
			continue
		}
		all := strangers(t, env)
		for _, path := range op.paths(t, a, b) {
			for _, s := range all {
				res := w.send(s, op.method, path, op.example)
				switch own := ofTheirOwn[op.name()]; {
				case s.selects && op.method != http.MethodGet:
					assert.Equal(t, 403, res.Code, "%s %s as %s: %s", op.method, path, s.name, res.Body)
				case own != "":
					assert.Equal(t, 200, res.Code, "%s %s: %s", op.method, path, own)
				default:
					assert.Contains(t, []int{403, 404}, res.Code, "%s %s as %s: %s", op.method, path, s.name, res.Body)
				}
			}
		}
		w.unchanged(op.name())
	}
}

// TestStrangersWithNamesInRequests sends every operation with names of A's
// things in path, query and body, one at a time and all at once. Much of it is
// allowed, because names are each workspace's own: nothing of A's is shown and
// nothing of A's changes.
func TestStrangersWithNamesInRequests(t *testing.T) {
	t.Parallel()
	env, a, b := estates(t)
	w := watch(t, env)
	for _, op := range described(t) {
		all, queries, bodies := strangers(t, env), op.queries(a), op.bodies(t, a) // an operation may revoke credentials
		for _, own := range []*estate{a, b} {
			paths := []string{op.path}
			if strings.Contains(op.path, "{") && !op.public {
				paths = op.paths(t, own, own)
			}
			for _, path := range paths {
				for _, s := range all {
					for _, query := range queries {
						for _, body := range bodies {
							w.send(s, op.method, path+query, body)
						}
					}
				}
			}
		}
		w.unchanged(op.name())
	}
	assert.Greater(t, w.sent, 1000)
}

// TestCursorsBelongToAWorkspace: a cursor of A's is refused with the names of
// what is B's.
func TestCursorsBelongToAWorkspace(t *testing.T) {
	t.Parallel()
	env, a, b := estates(t)
	w := watch(t, env)
	for _, op := range described(t) {
		if !slices.Contains(op.query, "next_token") {
			continue
		}
		for _, path := range op.paths(t, b, b)[:1] {
			want := 400
			if strings.HasPrefix(path, "/admin/") {
				want = 403 // for the platform's administrators only
			}
			for _, cursor := range a.cursors {
				for _, s := range strangers(t, env) {
					res := w.send(s, op.method, path+"?next_token="+url.QueryEscape(cursor), nil)
					assert.Equal(t, want, res.Code, "%s %s as %s: %s", op.method, path, s.name, res.Body)
				}
			}
		}
	}
	w.unchanged("cursors")
}

// TestStrangersNameThings checks the status of requests that name A's things
// where B has none of the name.
func TestStrangersNameThings(t *testing.T) {
	t.Parallel()
	env, a, b := estates(t)
	w := watch(t, env)
	flow, uri := a.names["flow_name"][0], a.names["artifact_store_uri"][0]
	python := object{"tasks": []object{{"name": "main", "type": "python", "entrypoint": "flow:main"}}}
	upload := object{
		"upload_id": a.names["upload_id"][0], "artifact_key": a.names["artifact_key"][0], "parts": []object{{"part_number": 1, "etag": "x"}},
		"deployment_name": "mine", "flow_name": "press-code", "flow_version": "2",
	}
	with := func(base object, name, value string) object {
		out := maps.Clone(base)
		out[name] = value
		return out
	}
	code := object{"flow_name": "mine", "flow_version": "1", "flow_spec": python, "artifact_store_uri": uri}
	for _, c := range []struct {
		path string
		body object
		code int
	}{
		{"/runs", object{"flow_name": flow, "flow_version": "1"}, 404},
		{"/runs", object{"flow_name": flow, "flow_version": "latest"}, 404},
		{"/runs", object{"deployment": a.names["deployment"][0]}, 404},
		{"/deployments", object{"deployment_name": "mine", "flow_name": flow, "flow_version": "1"}, 404},
		{"/schedules", object{"deployment": a.names["deployment"][0], "mode": "interval", "interval_seconds": 60}, 404},
		{"/alert-rules", object{"name": "mine", "trigger": "on_failure", "channel_ids": a.names["channel_id"]}, 422},
		{"/flows/" + flow + "/backfill", object{"from": "2026-03-01", "to": "2026-03-01", "interval_seconds": 86400}, 404},
		{"/flows", code, 403},
		{"/flows", with(code, "artifact_store_uri", strings.Replace(uri, a.OrgID, b.OrgID+"/../"+a.OrgID, 1)), 403},
		{"/flows", with(code, "artifact_store_uri", strings.ReplaceAll(uri, "/", "//")), 403},
		{"/flows", with(code, "artifact_store_uri", strings.Replace(uri, a.OrgID, b.OrgID, 1)), 422},
		{"/artifacts/complete", upload, 403},
		{"/artifacts/complete", with(upload, "artifact_key", b.names["artifact_key"][0]), 403},
		{"/artifacts/complete", with(upload, "upload_id", b.names["upload_id"][0]), 403},
		{"/artifacts/abort", object{"upload_id": upload["upload_id"], "artifact_key": upload["artifact_key"]}, 403},
		{"/artifacts/abort", object{"upload_id": upload["upload_id"], "artifact_key": b.names["artifact_key"][0]}, 403},
		{"/secrets/copy", object{"name": a.names["name"][0], "source_environment": nil, "target_environment": b.names["environment"][0]}, 404},
	} {
		for _, s := range strangers(t, env) {
			want := c.code
			if s.selects {
				want = 403
			}
			res := w.send(s, "POST", c.path, c.body)
			assert.Equal(t, want, res.Code, "%s %v as %s: %s", c.path, c.body, s.name, res.Body)
		}
	}
	w.unchanged("names")
}

// TestIdempotencyKeysBelongToAWorkspace: the key of A's request starts a run of
// B's own.
func TestIdempotencyKeysBelongToAWorkspace(t *testing.T) {
	t.Parallel()
	env := open(t)
	run := func(w localtest.Workspace) string {
		flow(env, t, w.Key, "etl", "1").Require(t, 200)
		return env.Send(t, localtest.Request{
			Credential: w.Key, Method: "POST", Path: "/runs", Body: object{"flow_name": "etl", "flow_version": "1"},
			Header: http.Header{"Idempotency-Key": {"monday"}},
		}).Require(t, 200).String(t, "run_id")
	}
	first, second := run(env.A), run(env.B)
	assert.NotEqual(t, first, second)
	assert.Equal(t, first, run(env.A))
	env.Do(t, env.B.Key, "GET", "/runs/"+first, nil).Require(t, 404)
}

// TestLinksBelongToAWorkspace: a presigned URL of B's leads to nothing of A's.
func TestLinksBelongToAWorkspace(t *testing.T) {
	t.Parallel()
	env, a, b := estates(t)
	output := env.Do(t, b.Key, "GET", "/runs/"+b.run+"/tasks/large/output", nil).Require(t, 302).Header.Get("Location")
	code, _, _ := exchange(t, http.MethodGet, output, nil)
	require.Equal(t, 200, code)
	theirs := env.Do(t, a.Key, "GET", "/runs/"+a.run+"/tasks/large/output", nil).Require(t, 302).Header.Get("Location")
	before := state(t, env)
	path := func(link string) string {
		u, err := url.Parse(link)
		require.NoError(t, err)
		return u.Path
	}
	for method, link := range map[string]string{
		http.MethodGet: strings.Replace(output, path(output), path(theirs), 1),
		http.MethodPut: strings.NewReplacer(b.names["artifact_key"][0], a.names["artifact_key"][0], b.names["upload_id"][0], a.names["upload_id"][0]).Replace(b.part),
	} {
		require.Contains(t, link, a.OrgID)
		code, _, body := exchange(t, method, link, nil)
		assert.Equal(t, 403, code, "%s %s: %s", method, link, body)
		assert.NotContains(t, body, canary)
	}
	assert.Empty(t, changes(env, before, state(t, env)))
}

// watcher sends requests of strangers and keeps an eye on A.
type watcher struct {
	t      *testing.T
	env    *localtest.Env
	before map[string]string
	sent   int
}

func watch(t *testing.T, env *localtest.Env) *watcher {
	t.Helper()
	return &watcher{t: t, env: env, before: state(t, env)}
}

// send sends a request, whose response must not contain anything of A's: the
// canary nowhere, and A's id only where an error repeats it.
func (w *watcher) send(s stranger, method, path string, body any) *localtest.Response {
	w.t.Helper()
	w.sent++
	res := w.env.Send(w.t, localtest.Request{Credential: s.credential, OrgID: s.header, Method: method, Path: path, Body: body})
	shown := string(res.Body) + strings.Join(res.Header.Values("Location"), "")
	assert.NotContains(w.t, shown, canary, "%s %s as %s", method, path, s.name)
	if res.Code < 400 {
		assert.NotContains(w.t, shown, w.env.A.OrgID, "%s %s as %s", method, path, s.name)
	}
	assert.Less(w.t, res.Code, 500, "%s %s as %s: %s", method, path, s.name, res.Body)
	return res
}

// unchanged checks that A is as it was.
func (w *watcher) unchanged(after string) {
	w.t.Helper()
	assert.Empty(w.t, changes(w.env, w.before, state(w.t, w.env)), after)
}

// attackable is an operation with what its description tells of its requests.
type attackable struct {
	method, path string
	public       bool
	query        []string        // names of its query parameters
	fields       []string        // of its body
	example      json.RawMessage // of its body; nil: it takes none
}

func (op attackable) name() string { return op.method + " " + op.path }

// described returns the operations of the description, in the order of their
// paths.
func described(t *testing.T) []attackable {
	t.Helper()
	doc := catalog.API(catalog.All(), httpapi.Config{}).OpenAPI()
	var out []attackable
	for _, op := range catalog.Public(catalog.Operations(catalog.All())) {
		item := doc.Paths[op.Path]
		d := map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "PUT": item.Put, "PATCH": item.Patch, "DELETE": item.Delete}[op.Method]
		require.NotNil(t, d, "%s %s", op.Method, op.Path)
		a := attackable{method: op.Method, path: op.Path, public: op.Access.IsPublic()}
		for _, p := range d.Parameters {
			if p.In == "query" {
				a.query = append(a.query, p.Name)
			}
		}
		if d.RequestBody != nil && d.RequestBody.Content["application/json"] != nil {
			content := d.RequestBody.Content["application/json"]
			schema := content.Schema
			if schema.Ref != "" {
				schema = doc.Components.Schemas.SchemaFromRef(schema.Ref)
			}
			a.fields = slices.Sorted(maps.Keys(schema.Properties))
			data, err := json.Marshal(content.Example)
			require.NoError(t, err)
			a.example = data
		}
		out = append(out, a)
	}
	return out
}

// paths returns the operation's path with every combination of names: of one
// estate for what the path names first, and of another for the rest.
func (op attackable) paths(t *testing.T, first, rest *estate) []string {
	t.Helper()
	out := []string{op.path}
	for i, name := range parameter.FindAllStringSubmatch(op.path, -1) {
		of := first
		if i > 0 {
			of = rest
		}
		values := of.names[name[1]]
		require.NotEmpty(t, values, "%s %s: the estates of the test have no %s", op.method, op.path, name[1])
		var more []string
		for _, path := range out {
			for _, value := range values {
				more = append(more, strings.Replace(path, name[0], url.PathEscape(value), 1))
			}
		}
		out = more
	}
	return out
}

// queries returns query strings with names of an estate: none, each known one
// alone, all together, and each cursor.
func (op attackable) queries(of *estate) []string {
	out, all := []string{""}, url.Values{}
	for _, name := range op.query {
		for i, value := range of.names[name] {
			out = append(out, "?"+url.Values{name: {value}}.Encode())
			if i == 0 {
				all.Set(name, value)
			}
		}
		if name == "next_token" {
			for _, cursor := range of.cursors {
				out = append(out, "?"+url.Values{name: {cursor}}.Encode())
			}
		}
	}
	return append(out, "?"+all.Encode())
}

// bodies returns bodies with names of an estate: none for operations that take
// none, else the example as it is, with each known field, and with all.
func (op attackable) bodies(t *testing.T, of *estate) []any {
	t.Helper()
	if op.example == nil {
		return []any{nil}
	}
	var example object
	if err := json.Unmarshal(op.example, &example); err != nil || example == nil {
		return []any{nil, op.example}
	}
	out, all := []any{nil, example}, maps.Clone(example)
	for _, field := range op.fields {
		for _, value := range of.names[field] {
			one := maps.Clone(example)
			one[field], all[field] = value, value
			out = append(out, one)
		}
	}
	return append(out, all)
}
