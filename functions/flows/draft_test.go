package flows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/flows"
	"millrace/localstack/proof/localtest"
	"millrace/shared/account/audit"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/registry/registrytest"
)

const draftPath = "/flows/etl/draft/source"

func TestDraftIsCopiedFromLatestVersion(t *testing.T) {
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

	audited(t, env, 0, func() { // once more: the same draft
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

// TestDraftStoredByEarlierVersion reads and edits a draft whose item has the
// revision of earlier versions, and no author.
func TestDraftStoredByEarlierVersion(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, flows.Spec)
	key, created := table.Key{PK: env.A.OrgID + "#flow#etl", SK: "draft"}, clock.ToMillis(env.Clock.Now().Add(-time.Hour))
	require.NoError(t, env.Deps.Table.Put(t.Context(), table.Put{Item: table.Item{
		"pk": table.V(key.PK), "sk": table.V(key.SK), "l1_pk": table.V(env.A.OrgID + "#drafts"), "l1_sk": table.V("etl"),
		"flow_name": table.V("etl"), "base_etag": table.V("0"), "etag": table.V("1"), "revision": table.V("01KAJ2J3V4W5X6Y7Z8A9B0C1D2"),
		"size": table.V(47), "files": table.V(1), "content": table.V(`{"flow_spec":null,"source":{"flow.py":"x = 1\n"}}`),
		"created_at": table.V(created), "updated_at": table.V(created), "updated_by": table.V("ann@a.test"),
	}}))
	read := env.Do(t, env.A.Key, "GET", draftPath, nil).Require(t, 200)
	assert.Equal(t, []any{"x = 1\n", "ann@a.test", created.String()}, []any{
		read.Get(t, "source", "flow.py"), read.String(t, "updated_by"), read.String(t, "updated_at"),
	})
	var edited *localtest.Response
	audited(t, env, 1, func() {
		edited = env.Do(t, env.A.Key, "PUT", draftPath, object{"source": object{"b.py": "2"}, "etag": "1"}).Require(t, 200)
	})
	assert.Equal(t, created.String(), edited.String(t, "created_at"))
	again := env.Do(t, env.A.Key, "PUT", draftPath, object{"source": object{"c.py": "3"}, "etag": edited.String(t, "etag")}).Require(t, 200)
	assert.Equal(t, object{"c.py": "3"}, again.Get(t, "source"))
	entries := env.Audit(t, env.A.OrgID)
	first := entries[slices.IndexFunc(entries, func(r audit.Record) bool { // both of one millisecond, possibly
		return r.ResourceType == "flow_draft" && strings.Contains(r.Before, `"etag":"1"`)
	})]
	assert.Equal(t, []string{"update", "etl"}, []string{first.Action, first.ResourceID})
	assert.JSONEq(t, `{"flow_name":"etl","base_version":"","etag":"1","size":47,"files":1}`, first.Before)
	assert.Contains(t, first.After, edited.String(t, "etag"))
}

// TestEditsOfDraftAreSerialized checks that without an etag concurrent edits
// all succeed, and keep what they do not change.
func TestEditsOfDraftAreSerialized(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, flows.Spec)
	env.Do(t, env.A.Key, "POST", "/flows/etl/draft", nil).Require(t, 200)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			env.Do(t, env.A.Key, "PUT", draftPath, object{"source": object{"a.py": strings.Repeat("y", 40<<10) + fmt.Sprint(i)}}).Require(t, 200)
		})
		wg.Go(func() {
			env.Do(t, env.A.Key, "PUT", draftPath, object{"flow_spec": object{"timeout_secs": i}}).Require(t, 200)
			env.Do(t, env.A.Key, "GET", draftPath, nil).Require(t, 200)
		})
	}
	wg.Wait()
	read := env.Do(t, env.A.Key, "GET", draftPath, nil).Require(t, 200)
	assert.Len(t, read.String(t, "source", "a.py"), 40<<10+1)
	assert.NotNil(t, read.Get(t, "flow_spec", "timeout_secs"))
	found, _, err := env.Deps.Blob.List(t.Context(), env.A.OrgID+"/drafts/", "", 0)
	require.NoError(t, err)
	assert.Len(t, found, 1, "no object is left behind")
}

func TestLargeDraftIsStoredAsObject(t *testing.T) {
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

func TestInvalidDraftsAreRejected(t *testing.T) {
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
