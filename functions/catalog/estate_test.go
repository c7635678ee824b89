package catalog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/functions/dispatch"
	"millrace/functions/taskworker"
	"millrace/localstack/embedded/runtime"
	"millrace/localstack/proof/localtest"
	"millrace/shared/run/registry/registrytest"
	"millrace/shared/web/fn"
)

// canary is in the content of everything in workspace A, and in no name: whoever
// sees it has read what is A's.
const canary = "canary-of-a"

// estate is a workspace with one of everything.
type estate struct {
	localtest.Workspace
	// names are the names and ids of its things, by the parameters and fields that
	// take them.
	names map[string][]string
	// cursors are those of its lists and logs.
	cursors []string
	run     string // that has ended
	part    string // presigned URL of a part of the open upload
}

// estates returns the service with an estate in workspace A, and another one
// with the same kinds of things in workspace B. Nothing works on them any more,
// so that what they contain stays as it is.
func estates(t *testing.T) (*localtest.Env, *estate, *estate) {
	t.Helper()
	env := localtest.Open(t, localtest.Options{Config: fn.Config{LongLived: true}}, catalog.All()...)
	specs := []fn.Spec{taskworker.Spec, dispatch.Spec}
	rt, err := runtime.New(runtime.Config{Specs: specs, Deps: env.Deps, Workers: 4})
	require.NoError(t, err)
	rt.Start(specs, false)
	a := furnish(t, env, env.A, "ledger", canary)
	b := furnish(t, env, env.B, "press", "words-of-b")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	rt.Stop(ctx)
	require.NoError(t, env.Deps.Logs.Close(ctx))
	for _, e := range []*estate{a, b} {
		queued := env.Do(t, e.Key, "POST", "/runs", object{"flow_name": e.names["flow_name"][0], "flow_version": "1"}).Require(t, 200)
		e.names["run_id"] = append(e.names["run_id"], queued.String(t, "run_id"))
		e.names["run_a"], e.names["run_b"] = e.names["run_id"], e.names["run_id"]
	}
	return env, a, b
}

// furnish makes one of everything, with names that begin with a word.
func furnish(t *testing.T, env *localtest.Env, w localtest.Workspace, word, content string) *estate {
	t.Helper()
	do := func(method, path string, body any) *localtest.Response {
		t.Helper()
		res := env.Do(t, w.Key, method, path, body)
		require.Equal(t, 2, res.Code/100, "%s %s: %s", method, path, res.Body)
		return res
	}
	task := func(name, expression string) object {
		return object{"name": name, "type": "transform", "config": object{"expression": expression}}
	}
	large := object{"tasks": []object{task("large", "[1, 2, 3, 4, 5, 6, 7, 8, 9].map(i, params.text)")}, "result": "tasks.large.output"}
	for _, f := range []object{
		{"flow_name": word, "flow_version": "1", "flow_spec": large},
		{"flow_name": word, "flow_version": "2", "flow_spec": object{"tasks": []object{task("fails", "1 / 0")}}},
		{"flow_name": word + "-second", "flow_version": "1", "flow_spec": object{"tasks": []object{task("one", "'"+content+"'")}}},
	} {
		f["description"], f["tags"] = content, object{"tag": content}
		do("POST", "/flows", f)
	}
	do("POST", "/deployments", object{
		"deployment_name": word + "-prod", "flow_name": word, "flow_version": "1", "environment": word + "-env",
		"parameters": object{"text": content + strings.Repeat("0123456789abcdef", 1<<13)},
	})
	do("POST", "/flows/"+word+"/draft", nil)
	do("PUT", "/flows/"+word+"/draft/source", object{"source": object{"flow.py": "# " + content}})
	secret := strings.ToUpper(word)
	do("POST", "/secrets", object{"name": secret, "value": content, "description": content})
	do("POST", "/secrets", object{"name": secret, "value": content, "environment": word + "-env"})
	key := do("POST", "/api-keys", object{"name": content})
	schedule := do("POST", "/schedules", object{
		"schedule_id": word + "-daily", "deployment": word + "-prod", "mode": "interval", "interval_seconds": 86400, "parameters": object{"text": content},
	})
	sensor := do("POST", "/sensors", object{
		"name": content, "sensor_type": "webhook", "flow_name": word, "flow_params_json": object{"text": content},
	})
	channel := do("POST", "/channels", object{"channel_type": "email", "name": content, "config_json": `{"to": ["ops@example.com"]}`})
	rule := do("POST", "/alert-rules", object{
		"name": content, "trigger": "on_failure", "flow_name": word, "channel_ids": []string{channel.String(t, "channel_id")},
	})
	backfill := do("POST", "/flows/"+word+"/backfill", object{"from": "2026-03-01", "to": "2026-03-01", "interval_seconds": 86400, "parameters": object{"text": content}})
	ended := do("POST", "/runs", object{"deployment": word + "-prod", "execute": true})
	require.Equal(t, "SUCCEEDED", ended.String(t, "status"), "%.500s", ended.Body)
	failed := do("POST", "/runs", object{"flow_name": word, "flow_version": "2", "execute": true})
	begun, done := uploads(t, env, w, word)

	run := ended.String(t, "run_id")
	cursor := func(path string) string { return do("GET", path, nil).String(t, "next_token") }
	return &estate{
		Workspace: w, run: run, part: begun.String(t, "parts", 0, "upload_url"),
		cursors: []string{cursor("/flows?limit=1"), cursor("/runs/" + run + "/logs?limit=1")},
		names: map[string][]string{
			"org_id": {w.OrgID}, "email": {w.Owner}, "actor_email": {w.Owner}, "triggered_by": {w.Owner},
			"flow_name": {word}, "flow_version": {"1", "latest"}, "base_version": {"1"},
			"deployment_name": {word + "-prod"}, "deployment": {word + "-prod"},
			"environment": {word + "-env"}, "source_environment": {word + "-env"}, "target_environment": {word + "-env"},
			"env_name": {word + "-env"}, "target_env": {word + "-env"}, "var_key": {secret},
			"name": {secret}, "secret_name": {secret}, "key_id": {key.String(t, "key_id")},
			"run_id": {run, ended.String(t, "run_slug"), failed.String(t, "run_id")}, "task_name": {"large"},
			"upload_id":          {begun.String(t, "upload_id")},
			"artifact_key":       {begun.String(t, "artifact_key")},
			"artifact_store_uri": {done.String(t, "artifact_store_uri")},
			"sensor_id":          {sensor.String(t, "sensor_id")},
			"schedule_id":        {schedule.String(t, "schedule_id")},
			"channel_id":         {channel.String(t, "channel_id")},
			"rule_id":            {rule.String(t, "rule_id")},
			"backfill_id":        {backfill.String(t, "backfill_id")},
			"resource_type":      {"run"}, "resource_id": {run},
		},
	}
}

// uploads begins an upload, and completes another.
func uploads(t *testing.T, env *localtest.Env, w localtest.Workspace, word string) (begun, done *localtest.Response) {
	t.Helper()
	initiate := func(version string, size int) *localtest.Response {
		return env.Do(t, w.Key, "POST", "/artifacts/initiate", object{"flow_name": word + "-code", "flow_version": version, "size_bytes": size}).Require(t, 200)
	}
	data := registrytest.Zip(t, map[string]string{"flow.py": "def main():\n    return 1\n", "flow_spec.json": registrytest.PythonSpec})
	first := initiate("1", len(data))
	code, header, _ := put(t, first.String(t, "parts", 0, "upload_url"), data)
	require.Equal(t, 200, code)
	done = env.Do(t, w.Key, "POST", "/artifacts/complete", object{
		"upload_id": first.String(t, "upload_id"), "artifact_key": first.String(t, "artifact_key"),
		"parts":           []object{{"part_number": 1, "etag": header.Get("ETag")}},
		"deployment_name": word + "-code", "flow_name": word + "-code", "flow_version": "1",
	}).Require(t, 200)
	return initiate("2", len(data)), done
}

func put(t *testing.T, url string, data []byte) (code int, header http.Header, body string) {
	t.Helper()
	return exchange(t, http.MethodPut, url, data)
}

// exchange sends a request to the object store.
func exchange(t *testing.T, method, url string, data []byte) (code int, header http.Header, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(data))
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode, res.Header, string(text)
}

// state returns all that is stored, objects included, but for what is B's: it
// has names or content of B's and no name of A's.
func state(t *testing.T, env *localtest.Env) map[string]string {
	t.Helper()
	out := map[string]string{}
	for key, item := range env.Stored(t) {
		name := key.PK + " " + key.SK
		if strings.Contains(name, env.A.OrgID) || !names(env.B, name+item) {
			out[name] = item
		}
	}
	objects, next, err := env.Deps.Blob.List(t.Context(), env.A.OrgID+"/", "", 1000)
	require.NoError(t, err)
	require.Empty(t, next)
	for _, o := range objects {
		data, err := json.Marshal(o)
		require.NoError(t, err)
		out["object "+o.Key] = string(data)
	}
	return out
}

// names reports whether a text has the id of a workspace, or its owner's email.
func names(w localtest.Workspace, text string) bool {
	return strings.Contains(text, w.OrgID) || strings.Contains(text, w.Owner)
}

// changes returns what has changed from one state to another: what is not as it
// was, and what is new of A's. What is new and nobody's, as a grant for a device,
// is no change.
func changes(env *localtest.Env, before, after map[string]string) (out []string) {
	for key, was := range before {
		if now, there := after[key]; !there || now != was {
			out = append(out, fmt.Sprintf("%s: %.300s became %.300s", key, was, now))
		}
	}
	for key, now := range after {
		if _, there := before[key]; !there && names(env.A, key+now) {
			out = append(out, fmt.Sprintf("%s: %.300s is new", key, now))
		}
	}
	return out
}
