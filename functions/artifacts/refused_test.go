package artifacts_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/artifacts"
	"millrace/localstack/proof/localtest"
	"millrace/shared/run/registry"
	"millrace/shared/run/registry/registrytest"
)

func TestHostileZipsAreRejectedAndDeleted(t *testing.T) {
	t.Parallel()
	raw := func(change func(*zip.FileHeader), content string) []byte {
		var buf bytes.Buffer
		w := zip.NewWriter(&buf)
		h := &zip.FileHeader{Name: "flow.py", Method: zip.Deflate}
		change(h)
		f := must(w.CreateHeader(h))
		_ = must(f.Write([]byte(content)))
		require.NoError(t, w.Close())
		return buf.Bytes()
	}
	named := func(name string) []byte { return raw(func(h *zip.FileHeader) { h.Name = name }, "x") }
	for name, data := range map[string][]byte{
		"a way out":     named("../../etc/passwd"),
		"absolute":      named("/etc/passwd"),
		"a backslash":   named(`..\x`),
		"a link":        raw(func(h *zip.FileHeader) { h.SetMode(fs.ModeSymlink | 0o777) }, "/etc/passwd"),
		"a bomb":        raw(func(*zip.FileHeader) {}, strings.Repeat("\x00", 20<<20)),
		"not a zip":     []byte("PK\x03\x04 nonsense"),
		"text":          []byte("hello"),
		"cut short":     registrytest.Zip(t, files)[:40],
		"a single byte": {0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := localtest.New(t, artifacts.Spec)
			begun := initiate(t, env, "1", len(data)).Require(t, 200)
			body := completion(t, begun, "1", send(t, begun, data), object{"flow_spec": json.RawMessage(registrytest.PythonSpec)})
			audited(t, env, 0, func() {
				complete(t, env, body).Require(t, 422)
				assert.False(t, stored(t, env, begun.String(t, "artifact_key")))
				complete(t, env, body).Require(t, 422)
			})
			_, err := registry.GetFlow(t.Context(), env.Deps.Table, env.A.OrgID, "etl")
			assert.Error(t, err)
			abort(t, env, env.A.Key, begun).Require(t, 204)
			// The version can be uploaded again.
			upload(t, env, "1", registrytest.Zip(t, files)).Require(t, 200)
		})
	}
}

func TestSizeMustBeAsAnnounced(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, artifacts.Spec)
	data := registrytest.Zip(t, files)
	begun := initiate(t, env, "1", len(data)-1).Require(t, 200)
	url := begun.Get(t, "parts").([]any)[0].(object)["upload_url"].(string)
	res := must(http.DefaultClient.Do(must(http.NewRequestWithContext(t.Context(), http.MethodPut, url, bytes.NewReader(data)))))
	require.NoError(t, res.Body.Close())
	parts := []object{{"part_number": 1, "etag": res.Header.Get("ETag")}}
	complete(t, env, completion(t, begun, "1", parts)).Require(t, 422)
	assert.False(t, stored(t, env, begun.String(t, "artifact_key")))
}

func TestInvalidCompletionCanBeRepeated(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, artifacts.Spec)
	data := registrytest.Zip(t, map[string]string{"flow.py": ""})
	begun := initiate(t, env, "1", len(data)).Require(t, 200)
	parts := send(t, begun, data)
	tags := object{}
	for i := range 51 {
		tags[fmt.Sprint(i)] = ""
	}
	spec := object{"flow_spec": json.RawMessage(registrytest.PythonSpec)}
	audited(t, env, 0, func() {
		for name, body := range map[string]any{
			"nothing":         object{},
			"no parts":        completion(t, begun, "1", []object{}, spec),
			"a part twice":    completion(t, begun, "1", []object{parts[0], parts[0]}, spec),
			"a wrong etag":    completion(t, begun, "1", []object{{"part_number": 1, "etag": "0123456789abcdef0123456789abcdef"}}, spec),
			"an unsent part":  completion(t, begun, "1", []object{parts[0], {"part_number": 2, "etag": "x"}}, spec),
			"part zero":       completion(t, begun, "1", []object{{"part_number": 0, "etag": "x"}}, spec),
			"another version": completion(t, begun, "2", parts, spec),
			"a schedule":      completion(t, begun, "1", parts, spec, object{"schedule": "every day"}),
			"many tags":       completion(t, begun, "1", parts, spec, object{"tags": tags}),
			"a bad slug":      completion(t, begun, "1", parts, spec, object{"dep_package_slugs": []string{"#"}}),
			"a bad status":    completion(t, begun, "1", parts, spec, object{"status": "ON"}),
			"a bad spec":      completion(t, begun, "1", parts, object{"flow_spec": object{"tasks": []any{object{"name": "a", "type": "x"}}}}),
			"unknown field":   completion(t, begun, "1", parts, spec, object{"force": true}),
			"broken":          "{",
		} {
			res := env.Do(t, env.A.Key, "POST", "/artifacts/complete", body)
			assert.Equal(t, 422, res.Code, "%s: %s", name, res.Body)
		}
		// Neither the request nor the zip, which was assembled to look, has a flow_spec.
		res := complete(t, env, completion(t, begun, "1", parts)).Require(t, 422)
		assert.Equal(t, []any{"body", "flow_spec"}, res.Get(t, "detail", 0, "loc"))
	})
	complete(t, env, completion(t, begun, "1", parts, spec)).Require(t, 200)
}
