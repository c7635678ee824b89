package artifacts_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/artifacts"
	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/blob"
	"millrace/shared/run/registry"
	"millrace/shared/run/registry/registrytest"
)

type object = map[string]any

var files = map[string]string{"flow.py": "def main():\n    return 1\n", "flow_spec.json": registrytest.PythonSpec}

func initiate(t *testing.T, env *localtest.Env, version string, size int) *localtest.Response {
	t.Helper()
	return env.Do(t, env.A.Key, "POST", "/artifacts/initiate", object{"flow_name": "etl", "flow_version": version, "size_bytes": size, "file_name": "etl.zip"})
}

// send sends the parts to their URLs, as a client does, and returns them for
// the completion.
func send(t *testing.T, begun *localtest.Response, data []byte) []object {
	t.Helper()
	size := int(must(begun.Get(t, "part_size").(json.Number).Int64()))
	var parts []object
	for i, p := range begun.Get(t, "parts").([]any) {
		part := data[min(i*size, len(data)):min((i+1)*size, len(data))]
		req := must(http.NewRequestWithContext(t.Context(), http.MethodPut, p.(object)["upload_url"].(string), bytes.NewReader(part)))
		res := must(http.DefaultClient.Do(req))
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode)
		parts = append(parts, object{"part_number": p.(object)["part_number"], "etag": res.Header.Get("ETag")})
	}
	return parts
}

// completion returns a body of POST /artifacts/complete.
func completion(t *testing.T, begun *localtest.Response, version string, parts []object, more ...object) object {
	t.Helper()
	body := object{
		"upload_id": begun.String(t, "upload_id"), "artifact_key": begun.String(t, "artifact_key"), "parts": parts,
		"deployment_name": "etl-prod", "flow_name": "etl", "flow_version": version,
	}
	for _, m := range more {
		maps.Copy(body, m)
	}
	return body
}

func complete(t *testing.T, env *localtest.Env, body object) *localtest.Response {
	t.Helper()
	return env.Do(t, env.A.Key, "POST", "/artifacts/complete", body)
}

// upload initiates and completes the upload of a zip.
func upload(t *testing.T, env *localtest.Env, version string, data []byte, more ...object) *localtest.Response {
	t.Helper()
	begun := initiate(t, env, version, len(data)).Require(t, 200)
	return complete(t, env, completion(t, begun, version, send(t, begun, data), more...))
}

func abort(t *testing.T, env *localtest.Env, key string, begun *localtest.Response) *localtest.Response {
	t.Helper()
	return env.Do(t, key, "POST", "/artifacts/abort", object{"upload_id": begun.String(t, "upload_id"), "artifact_key": begun.String(t, "artifact_key")})
}

func audited(t *testing.T, env *localtest.Env, n int, do func()) {
	t.Helper()
	before := env.AuditCount(t, env.A.OrgID)
	do()
	assert.Equal(t, n, env.AuditCount(t, env.A.OrgID)-before, "audit entries")
}

func stored(t *testing.T, env *localtest.Env, key string) bool {
	t.Helper()
	_, err := env.Deps.Blob.Head(context.Background(), key)
	if err != nil {
		require.ErrorIs(t, err, blob.ErrNotFound)
	}
	return err == nil
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestAccess(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, artifacts.Spec)
	ids := object{"upload_id": "u", "artifact_key": env.A.OrgID + "/artifacts/etl/1/x.zip"}
	env.CheckAccess(t, "artifacts-initiate", "/artifacts/initiate", object{"flow_name": "etl", "flow_version": "1", "size_bytes": 1})
	env.CheckAccess(t, "artifacts-complete", "/artifacts/complete", ids)
	env.CheckAccess(t, "artifacts-abort", "/artifacts/abort", ids)
}

func TestUploadRegistersAndDeploys(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, artifacts.Spec)
	noise := make([]byte, 9<<20) // two parts
	_, _ = rand.Read(noise)
	data := registrytest.Zip(t, map[string]string{"flow.py": files["flow.py"], "noise.bin": string(noise)})

	var begun, done *localtest.Response
	audited(t, env, 1, func() { begun = initiate(t, env, "1", len(data)).Require(t, 200) })
	assert.Equal(t, json.Number("8388608"), begun.Get(t, "part_size"))
	assert.Len(t, begun.Get(t, "parts"), 2)
	assert.Regexp(t, "^"+env.A.OrgID+"/artifacts/etl/1/[0-9A-Z]{26}[.]zip$", begun.String(t, "artifact_key"))
	expires, err := time.Parse(time.RFC3339, begun.String(t, "expires_at"))
	require.NoError(t, err)
	assert.True(t, expires.After(env.Clock.Now()))

	body := completion(t, begun, "1", send(t, begun, data), object{
		"flow_spec": json.RawMessage(registrytest.PythonSpec), "code_hash": nil, "schedule": nil, "timezone": "UTC",
		"namespace": "team", "dep_package_slugs": []string{"pandas"}, "tags": object{"a": "b"},
	})
	audited(t, env, 1, func() { done = complete(t, env, body).Require(t, 200) })

	sum := sha256.Sum256(data)
	key := begun.String(t, "artifact_key")
	// The complete response.
	assert.Equal(t, object{
		"artifact_store_uri": registry.ArtifactURI(key), "flow_name": "etl", "flow_version": "1", "deployment_name": "etl-prod",
		"code_hash": hex.EncodeToString(sum[:]), "deployment_version": json.Number("1"), "environment": "default",
	}, done.Object(t))
	assert.True(t, stored(t, env, key))

	d, err := registry.GetDeployment(t.Context(), env.Deps.Table, env.A.OrgID, "etl-prod")
	require.NoError(t, err)
	assert.Equal(t, []any{"nano", "ACTIVE", "default", "team", "UTC", "1"},
		[]any{d.ExecutionMode, d.Status, d.Environment, d.Namespace, d.Timezone, d.FlowVersion})
	assert.Equal(t, []string{"pandas"}, d.DepPackageSlugs)
	assert.Equal(t, map[string]string{"a": "b"}, d.Tags)
	v, err := registry.Latest(t.Context(), env.Deps.Table, env.A.OrgID, "etl")
	require.NoError(t, err)
	assert.Equal(t, []any{"1", key}, []any{v.FlowVersion, v.ArtifactKey})
}

func TestRepeatedCompletionReturnsSameResponse(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, artifacts.Spec)
	data := registrytest.Zip(t, files)
	begun := initiate(t, env, "1", len(data)).Require(t, 200)
	body := completion(t, begun, "1", send(t, begun, data), object{"environment": "prod", "execution_mode": "small", "code_hash": "abc"})
	first := complete(t, env, body).Require(t, 200)
	assert.Equal(t, []string{"prod", "abc"}, []string{first.String(t, "environment"), first.String(t, "code_hash")})
	audited(t, env, 0, func() {
		assert.JSONEq(t, string(first.Body), string(complete(t, env, body).Require(t, 200).Body))
		complete(t, env, completion(t, begun, "1", []object{{"part_number": 1, "etag": "other"}})).Require(t, 409)
		complete(t, env, completion(t, begun, "1", body["parts"].([]object), object{"deployment_name": "other"})).Require(t, 409)
	})
}

func TestRedeploymentIncrementsDeploymentVersion(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, artifacts.Spec)
	upload(t, env, "1", registrytest.Zip(t, files), object{"execution_mode": "large", "environment": "prod"}).Require(t, 200)
	second := upload(t, env, "2", registrytest.Zip(t, files)).Require(t, 200)
	assert.Equal(t, json.Number("2"), second.Get(t, "deployment_version"))
	d, err := registry.GetDeployment(t.Context(), env.Deps.Table, env.A.OrgID, "etl-prod")
	require.NoError(t, err)
	assert.Equal(t, []string{"2", "large", "prod"}, []string{d.FlowVersion, d.ExecutionMode, d.Environment}, "fields that the request does not set remain unchanged")

	// The same code again as version 1: the version is unchanged, and deployed.
	again := upload(t, env, "1", registrytest.Zip(t, files)).Require(t, 200)
	assert.Equal(t, json.Number("3"), again.Get(t, "deployment_version"))
	objects, _, err := env.Deps.Blob.List(t.Context(), env.A.OrgID+"/artifacts/etl/1/", "", 0)
	require.NoError(t, err)
	require.Len(t, objects, 1, "the second copy is deleted")
	assert.Equal(t, again.String(t, "artifact_store_uri"), registry.ArtifactURI(objects[0].Key))

	// Other code as version 1 is rejected, and can be aborted.
	other := registrytest.Zip(t, map[string]string{"flow.py": "def main(): return 2", "flow_spec.json": registrytest.PythonSpec})
	begun := initiate(t, env, "1", len(other)).Require(t, 200)
	audited(t, env, 0, func() { complete(t, env, completion(t, begun, "1", send(t, begun, other))).Require(t, 409) })
	abort(t, env, env.A.Key, begun).Require(t, 204)
	assert.False(t, stored(t, env, begun.String(t, "artifact_key")))
	assert.True(t, stored(t, env, objects[0].Key))
}

func TestUploadsResumeWhileURLsAreValid(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, artifacts.Spec)
	data := registrytest.Zip(t, files)
	begun := initiate(t, env, "1", len(data)).Require(t, 200)
	parts := send(t, begun, data)
	var again *localtest.Response
	audited(t, env, 0, func() { again = initiate(t, env, "1", len(data)).Require(t, 200) })
	for _, field := range []string{"upload_id", "artifact_key", "expires_at"} {
		assert.Equal(t, begun.String(t, field), again.String(t, field), field)
	}
	// Another version has an upload of its own.
	assert.NotEqual(t, begun.String(t, "artifact_key"), initiate(t, env, "2", len(data)).Require(t, 200).String(t, "artifact_key"))
	complete(t, env, completion(t, again, "1", parts)).Require(t, 200)
	// A completed upload is not resumed.
	assert.NotEqual(t, begun.String(t, "upload_id"), initiate(t, env, "1", len(data)).Require(t, 200).String(t, "upload_id"))
}

func TestAbandonedUploadsAreAbortedFirst(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*testing.T, *localtest.Env, int) *localtest.Response{
		"another size": func(t *testing.T, env *localtest.Env, size int) *localtest.Response {
			return initiate(t, env, "1", size+1)
		},
		"expired": func(t *testing.T, env *localtest.Env, size int) *localtest.Response {
			env.Clock.Advance(7 * time.Hour)
			return initiate(t, env, "1", size)
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := localtest.New(t, artifacts.Spec)
			data := registrytest.Zip(t, files)
			old := initiate(t, env, "1", len(data)).Require(t, 200)
			parts := send(t, old, data)
			var fresh *localtest.Response
			audited(t, env, 2, func() { fresh = begin(t, env, len(data)).Require(t, 200) }) // an abort and an initiation
			assert.NotEqual(t, old.String(t, "upload_id"), fresh.String(t, "upload_id"))
			complete(t, env, completion(t, old, "1", parts)).Require(t, 409)
			_, err := env.Deps.Blob.CompleteMultipart(t.Context(), old.String(t, "artifact_key"), old.String(t, "upload_id"),
				[]blob.Part{{Number: 1, ETag: parts[0]["etag"].(string)}})
			assert.ErrorIs(t, err, blob.ErrNoUpload, "deleted from the object store, too")
		})
	}
}

func TestUploadsOfOtherWorkspacesAre403(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, artifacts.Spec)
	data := registrytest.Zip(t, files)
	begun := initiate(t, env, "1", len(data)).Require(t, 200)
	body := completion(t, begun, "1", send(t, begun, data))
	audited(t, env, 0, func() {
		env.Do(t, env.B.Key, "POST", "/artifacts/complete", body).Require(t, 403)
		abort(t, env, env.B.Key, begun).Require(t, 403)
		mine := env.Do(t, env.B.Key, "POST", "/artifacts/initiate", object{"flow_name": "etl", "flow_version": "1", "size_bytes": len(data)}).Require(t, 200)
		assert.NotEqual(t, begun.String(t, "upload_id"), mine.String(t, "upload_id"), "uploads of another workspace are not resumed")
		for _, key := range []string{"../" + begun.String(t, "artifact_key"), "x", env.B.OrgID + "/../" + begun.String(t, "artifact_key")} {
			body["artifact_key"] = key
			env.Do(t, env.B.Key, "POST", "/artifacts/complete", body).Require(t, 403)
		}
		// The own key with the upload_id of the other workspace.
		body["artifact_key"] = mine.String(t, "artifact_key")
		env.Do(t, env.B.Key, "POST", "/artifacts/complete", body).Require(t, 403)
		// A key of the own workspace that was never initiated.
		body["artifact_key"] = env.B.OrgID + "/artifacts/etl/1/01NOTHING.zip"
		env.Do(t, env.B.Key, "POST", "/artifacts/complete", body).Require(t, 404)
	})
	_, err := registry.GetFlow(t.Context(), env.Deps.Table, env.B.OrgID, "etl")
	assert.Error(t, err)
	body["artifact_key"] = begun.String(t, "artifact_key")
	complete(t, env, body).Require(t, 200)
}

func TestAbortIs204AndRepeatable(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, artifacts.Spec)
	data := registrytest.Zip(t, files)
	begun := initiate(t, env, "1", len(data)).Require(t, 200)
	parts := send(t, begun, data)
	audited(t, env, 1, func() {
		assert.Empty(t, abort(t, env, env.A.Key, begun).Require(t, 204).Body)
		abort(t, env, env.A.Key, begun).Require(t, 204)
	})
	complete(t, env, completion(t, begun, "1", parts)).Require(t, 409)

	next := initiate(t, env, "1", len(data)).Require(t, 200)
	complete(t, env, completion(t, next, "1", send(t, next, data))).Require(t, 200)
	abort(t, env, env.A.Key, next).Require(t, 409)
	assert.True(t, stored(t, env, next.String(t, "artifact_key")))
}

func TestUnsupportedRuntimeIs400(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, artifacts.Spec)
	data := registrytest.Zip(t, files)
	begun := initiate(t, env, "1", len(data)).Require(t, 200)
	body := completion(t, begun, "1", send(t, begun, data))
	for field, value := range map[string]string{"execution_mode": "giant", "default_executor": "cobol"} {
		wrong := maps.Clone(body)
		wrong[field] = value
		res := complete(t, env, wrong).Require(t, 400)
		assert.Contains(t, res.String(t, "detail"), "Unsupported runtime")
	}
	complete(t, env, body).Require(t, 200) // the upload is still open
}

func TestInvalidInitiationIsRejected(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, artifacts.Spec)
	audited(t, env, 0, func() {
		for name, body := range map[string]any{
			"nothing":    object{},
			"no size":    object{"flow_name": "etl", "flow_version": "1"},
			"empty":      object{"flow_name": "etl", "flow_version": "1", "size_bytes": 0},
			"too large":  object{"flow_name": "etl", "flow_version": "1", "size_bytes": 250<<20 + 1},
			"a bad name": object{"flow_name": "a/b", "flow_version": "1", "size_bytes": 1},
			"reserved":   object{"flow_name": "etl", "flow_version": "draft", "size_bytes": 1},
			"text size":  object{"flow_name": "etl", "flow_version": "1", "size_bytes": "1"},
			"two lines":  object{"flow_name": "etl", "flow_version": "1", "size_bytes": 1, "content_type": "a/b\nc: d"},
			"no header":  object{"flow_name": "etl", "flow_version": "1", "size_bytes": 1, "content_type": "a/b\u0000"},
			"no type":    object{"flow_name": "etl", "flow_version": "1", "size_bytes": 1, "content_type": "zip"},
		} {
			res := env.Do(t, env.A.Key, "POST", "/artifacts/initiate", body)
			assert.Equal(t, 422, res.Code, "%s: %s", name, res.Body)
		}
	})
	for i, media := range []string{"", "application/zip", "application/x-zip-compressed; charset=binary"} {
		env.Do(t, env.A.Key, "POST", "/artifacts/initiate", object{
			"flow_name": "typed", "flow_version": strconv.Itoa(i), "size_bytes": 1, "content_type": media,
		}).Require(t, 200)
	}
	largest := initiate(t, env, "1", 250<<20).Require(t, 200)
	assert.Len(t, largest.Get(t, "parts"), 32)
}
