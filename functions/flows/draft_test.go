package flows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/flows"
	"millrace/localstack/proof/localtest"
	"millrace/shared/run/registry/registrytest"
)

const draftPath = "/flows/etl/draft/source"

func TestDraftIsCopiedFromTheLatestVersion(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, flows.Spec)
	key := registrytest.PutArtifact(t, env.Deps.Blob, env.A.OrgID, "etl", "1", map[string]string{
		"flow.py": "def main():\n    return 'é'\n", "pkg/util.py": "", "logo.png": "\x89PNG\x00\xff", "big.txt": strings.Repeat("x", 300<<10),
	})
	register(t, env, "etl", "1", registrytest.PythonSpec, object{"artifact_store_uri": key}).Require(t, 200)
	env.Do(t, env.A.Key, "GET", draftPath, nil).Require(t, 404)
	env.Do(t, env.A.Key, "PUT", draftPath, object{"source": object{}}).Require(t, 404)

	var draft *localtest.Response
	audited(t, env, 1, func() {
		draft = env.Do(t, env.A.Key, "POST", "/flows/etl/draft", nil).Require(t, 200)
	})
	assert.Equal(t, "1", draft.String(t, "base_version"))
	assert.Equal(t, object{"flow.py": "def main():\n    return 'é'\n", "pkg/util.py": ""}, draft.Get(t, "source"))
	assert.ElementsMatch(t, []any{"logo.png", "big.txt"}, draft.Get(t, "omitted_files"))
	assert.JSONEq(t, registrytest.PythonSpec, string(must(json.Marshal(draft.Get(t, "flow_spec")))))
	assert.JSONEq(t, string(draft.Body), string(env.Do(t, env.A.Key, "GET", draftPath, nil).Require(t, 200).Body))

	audited(t, env, 0, func() { // again: the same draft
		assert.JSONEq(t, string(draft.Body), string(env.Do(t, env.A.Key, "POST", "/flows/etl/draft", nil).Require(t, 200).Body))
	})
	registrytest.Register(t, storeOf(env), env.A.OrgID, "etl", "2", registrytest.Spec(2), "")
	assert.Equal(t, "2", env.Do(t, env.A.Key, "POST", "/flows/etl/draft", nil).Require(t, 200).String(t, "base_version"), "an unedited draft follows")

	env.Do(t, env.A.Key, "PUT", draftPath, object{"source": object{"mine.py": "1"}}).Require(t, 200)
	registrytest.Register(t, storeOf(env), env.A.OrgID, "etl", "3", registrytest.Spec(3), "")
	kept := env.Do(t, env.A.Key, "POST", "/flows/etl/draft", nil).Require(t, 200)
	assert.Equal(t, "2", kept.String(t, "base_version"), "an edited one is kept")
	assert.Equal(t, true, kept.Get(t, "edited"))
	assert.Equal(t, object{"mine.py": "1"}, kept.Get(t, "source"))
}

func TestDraftIsEdited(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, flows.Spec)
	empty := env.Do(t, env.A.Key, "POST", "/flows/etl/draft", nil).Require(t, 200)
	assert.Nil(t, empty.Get(t, "base_version"))
	etag := empty.String(t, "etag")

	unfinished := object{"tasks": []any{object{"name": "half"}}, "n": json.Number("12345678901234567890")}
	var second *localtest.Response
	audited(t, env, 1, func() {
		second = env.Do(t, env.A.Key, "PUT", draftPath, object{"flow_spec": unfinished, "etag": etag}).Require(t, 200)
	})
	assert.Equal(t, unfinished, second.Get(t, "flow_spec"), "kept digit by digit")
	assert.NotEqual(t, etag, second.String(t, "etag"))
	audited(t, env, 0, func() {
		env.Do(t, env.A.Key, "PUT", draftPath, object{"source": object{"a.py": "1"}, "etag": etag}).Require(t, 409)
	})
	third := env.Do(t, env.A.Key, "PUT", draftPath, object{"source": object{"a.py": "1"}}).Require(t, 200)
	assert.Equal(t, unfinished, third.Get(t, "flow_spec"), "what is left out stays")
	assert.JSONEq(t, string(third.Body), string(env.Do(t, env.A.Key, "GET", draftPath, nil).Body))
	for _, r := range env.Audit(t, env.A.OrgID) {
		assert.NotContains(t, r.After, "half", "sources are not in the audit log")
	}
}

func TestLargeDraftLivesInTheObjectStore(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, flows.Spec)
	register(t, env, "etl", "1", registrytest.Spec(1)).Require(t, 200)
	env.Do(t, env.A.Key, "POST", "/flows/etl/draft", nil).Require(t, 200)
	objects := func() (keys []string) {
		found, _, err := env.Deps.Blob.List(context.Background(), env.A.OrgID+"/drafts/", "", 0)
		require.NoError(t, err)
		for _, o := range found {
			keys = append(keys, o.Key)
		}
		return keys
	}
	for i := range 3 {
		text := fmt.Sprint(i) + strings.Repeat("y", 1<<20)
		env.Do(t, env.A.Key, "PUT", draftPath, object{"source": object{"a.py": text}}).Require(t, 200)
		assert.Equal(t, text, env.Do(t, env.A.Key, "GET", draftPath, nil).String(t, "source", "a.py"))
		assert.Len(t, objects(), 1, "the one before is gone")
	}
	env.Do(t, env.A.Key, "PUT", draftPath, object{"source": object{"a.py": strings.Repeat("z", 3<<20)}}).Require(t, 422)
	env.Do(t, env.A.Key, "DELETE", "/flows/etl", nil).Require(t, 200)
	assert.Empty(t, objects(), "deleting the flow takes its draft along")
	env.Do(t, env.A.Key, "GET", draftPath, nil).Require(t, 404)
}

func TestBadDraftsAreRefused(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, flows.Spec)
	env.Do(t, env.A.Key, "POST", "/flows/etl/draft", nil).Require(t, 200)
	many := object{}
	for i := range 1001 {
		many[fmt.Sprint(i)] = ""
	}
	audited(t, env, 0, func() {
		for name, body := range map[string]any{
			"a spec that is a list": object{"flow_spec": []any{}},
			"a spec that is text":   object{"flow_spec": "x"},
			"a file of a number":    object{"source": object{"a": 1}},
			"a source that is text": object{"source": "print(1)"},
			"an absolute name":      object{"source": object{"/etc/passwd": ""}},
			"a way out":             object{"source": object{"a/../../b": ""}},
			"a backslash":           object{"source": object{`a\b`: ""}},
			"a control character":   object{"source": object{"a\nb": ""}},
			"an empty name":         object{"source": object{"": ""}},
			"a long name":           object{"source": object{strings.Repeat("a", 513): ""}},
			"too many files":        object{"source": many},
			"an unknown field":      object{"sauce": object{}},
			"no object":             []any{},
			"broken JSON":           `{"source":{"a":`,
		} {
			res := env.Do(t, env.A.Key, "PUT", draftPath, body)
			assert.Equal(t, 422, res.Code, "%s: %s", name, res.Body)
		}
	})
	env.Do(t, env.A.Key, "POST", "/flows/a%23b/draft", nil).Require(t, 422)
}
