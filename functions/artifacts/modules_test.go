package artifacts_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/artifacts"
	"millrace/localstack/proof/localtest"
	"millrace/shared/run/registry/registrytest"
)

// TestRejectedUploadIsNotResumed checks that after a completion that was
// rejected when the parts had been assembled, the same upload accepts no parts,
// and that the next one is new.
func TestRejectedUploadIsNotResumed(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, artifacts.Spec)
	upload(t, env, "1", registrytest.Zip(t, files)).Require(t, 200)
	other := registrytest.Zip(t, map[string]string{"flow.py": "def main():\n    return 2\n", "flow_spec.json": registrytest.PythonSpec})
	dead := initiate(t, env, "1", len(other)).Require(t, 200)
	complete(t, env, completion(t, dead, "1", send(t, dead, other))).Require(t, 409)
	next := initiate(t, env, "1", len(other)).Require(t, 200)
	assert.NotEqual(t, dead.String(t, "upload_id"), next.String(t, "upload_id"))
	complete(t, env, completion(t, next, "1", send(t, next, other))).Require(t, 409)
	assert.False(t, stored(t, env, dead.String(t, "artifact_key")), "the assembled object is deleted")

	without := registrytest.Zip(t, map[string]string{"flow.py": ""})
	dead = initiate(t, env, "2", len(without)).Require(t, 200)
	complete(t, env, completion(t, dead, "2", send(t, dead, without))).Require(t, 422)
	upload(t, env, "2", without, object{"flow_spec": json.RawMessage(registrytest.PythonSpec)}).Require(t, 200)
}

// TestModuleOfEntrypointMustBeInArtifact checks that a missing module is
// reported when the code is uploaded, because every run would fail.
func TestModuleOfEntrypointMustBeInArtifact(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, artifacts.Spec)
	spec := func(entrypoint string) object {
		return object{"flow_spec": object{
			"tasks":      []object{{"name": "a", "type": "transform", "config": object{"expression": "1"}}, {"name": "b", "type": "python", "entrypoint": entrypoint}},
			"on_failure": object{"name": "tell", "type": "python", "entrypoint": entrypoint},
		}}
	}
	version := 0
	deploy := func(entrypoint string, names ...string) *localtest.Response {
		version++
		content := map[string]string{}
		for _, name := range names {
			content[name] = ""
		}
		return upload(t, env, fmt.Sprint(version), registrytest.Zip(t, content), spec(entrypoint))
	}
	for entrypoint, names := range map[string][]string{
		"flow:main":            {"flow.py"},
		"acme.flows.daily:fn":  {"acme/flows/daily.py"},
		"acme.flows.weekly:fn": {"acme/__init__.py", "acme/flows/__init__.py", "acme/flows/weekly.py"},
		"acme.flows:fn":        {"acme/flows/__init__.py"},
		"fast:fn":              {"fast.cpython-311-x86_64-linux-gnu.so"},
		"old:fn":               {"old.pyc"},
	} {
		deploy(entrypoint, names...).Require(t, 200)
	}
	for entrypoint, c := range map[string]struct {
		names []string
		near  string
	}{
		"daily:fn":            {[]string{"acme/flows/daily.py", "setup.py"}, "similar files are acme/flows/daily.py"},
		"acme.flows.daily:fn": {[]string{"src/acme/flows/daily.py", "daily.py", "setup.py"}, "similar files are src/acme/flows/daily.py, daily.py"},
		"acme.daily:fn":       {[]string{"acme/Daily.py"}, "similar files are acme/Daily.py"},
		"flow:main":           {[]string{"flows.py", "lib/x.py"}, "similar files are flows.py"},
		"acme:fn":             {[]string{"acme/flows.py", "acme.txt"}, "acme.py or acme/__init__.py"},
	} {
		res := deploy(entrypoint, c.names...).Require(t, 422)
		assert.Equal(t, []any{"body", "flow_spec", "tasks", json.Number("1"), "entrypoint"}, res.Get(t, "detail", 0, "loc"), entrypoint)
		assert.Equal(t, entrypoint, res.Get(t, "detail", 0, "input"))
		assert.Contains(t, res.Get(t, "detail", 0, "msg"), c.near)
		assert.Equal(t, []any{"body", "flow_spec", "on_failure", "entrypoint"}, res.Get(t, "detail", 1, "loc"), entrypoint)
	}

	// Another flow_spec completes the same upload.
	data := registrytest.Zip(t, map[string]string{"flow.py": ""})
	begun := initiate(t, env, "mended", len(data)).Require(t, 200)
	parts := send(t, begun, data)
	complete(t, env, completion(t, begun, "mended", parts, spec("flw:main"))).Require(t, 422)
	res := complete(t, env, completion(t, begun, "mended", parts, spec("flow:main"))).Require(t, 200)
	require.NotEmpty(t, res.String(t, "code_hash"))
}
