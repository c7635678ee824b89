package sandboxlogs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/sandboxlogs"
	"millrace/localstack/proof/localtest"
	"millrace/shared/run/runstate"
	"millrace/shared/run/sandbox"
	"millrace/shared/run/sandbox/ticket"
)

// ask posts a request for the link of a file.
func (w *world) ask(t *testing.T, token, field string, value any) *localtest.Response {
	t.Helper()
	return w.Do(t, token, "POST", sandboxlogs.Path, map[string]any{"events": []any{}, field: value})
}

func TestFilesAreLinked(t *testing.T) {
	w := open(t)
	const reference = "runs/" + run + "/out/4-2-files/0"
	want := fmt.Sprintf(`{"cancelled": false, "reference": %q, "url": "memory:put/%s/%s"}`, reference, w.A.OrgID, reference)
	for range 2 { // the number identifies the file: a request whose response was lost is repeated
		assert.JSONEq(t, want, string(w.ask(t, w.token, "save_file", 0).Require(t, 200).Body))
	}
	w.ask(t, w.token, "save_file", sandbox.MaxSavedFiles-1).Require(t, 200)

	res := w.ask(t, w.token, "open_file", reference).Require(t, 200)
	assert.JSONEq(t, fmt.Sprintf(`{"cancelled": false, "reference": %q, "url": "memory:get/%s/%s"}`, reference, w.A.OrgID, reference), string(res.Body))
	// A reused output refers to a file of an earlier run.
	w.ask(t, w.token, "open_file", "runs/01EARLIER/out/3-1-files/7").Require(t, 200)
	assert.JSONEq(t, `{"cancelled": false}`, string(w.post(t, w.token).Require(t, 200).Body), "nobody asked for a file")
}

func TestInvalidFilesAreRejected(t *testing.T) {
	w := open(t)
	for _, number := range []int{-1, sandbox.MaxSavedFiles, 1 << 40} {
		res := w.ask(t, w.token, "save_file", number).Require(t, 422)
		assert.Contains(t, string(res.Body), "a task saves at most 1000 files")
	}
	w.ask(t, w.token, "save_file", true).Require(t, 422)
	for _, forged := range []string{
		w.B.OrgID + "/runs/01RUN/out/0-1-files/0", "../" + w.B.OrgID + "/runs/01RUN/out/0-1-files/0", "runs/" + run + "/out/4-2.json",
		"runs/" + run + "/log-1", "runs/" + run + "/out/4-2-files/0?x", "secrets.json",
	} {
		res := w.ask(t, w.token, "open_file", forged).Require(t, 422)
		assert.Contains(t, string(res.Body), "no reference to a file", forged)
		assert.NotContains(t, string(res.Body), "memory:", forged)
	}
	both := map[string]any{"events": []any{}, "save_file": 0, "open_file": "runs/01RUN/out/0-1-files/0"}
	w.Do(t, w.token, "POST", sandboxlogs.Path, both).Require(t, 422)

	for _, token := range []string{"", w.A.Key, w.token[:len(w.token)-1]} {
		w.ask(t, token, "save_file", 0).Require(t, 401)
	}
	// Links are only for files of the attempt's workspace, and not for an attempt
	// that must stop.
	strange := ticket.Sign(key, ticket.Attempt{Org: w.B.OrgID, Run: run, Node: node, Number: 2, Expires: w.Clock.Now().Unix() + 60})
	earlier := ticket.Sign(key, ticket.Attempt{Org: w.A.OrgID, Run: run, Node: node, Number: 1, Expires: w.Clock.Now().Unix() + 60})
	for _, token := range []string{strange, earlier} {
		for field, value := range map[string]any{"save_file": 0, "open_file": "runs/" + run + "/out/4-2-files/0"} {
			assert.JSONEq(t, `{"cancelled": true}`, string(w.ask(t, token, field, value).Require(t, 200).Body))
		}
	}
	w.put(t, runstate.Run{Key: runstate.RunKey(w.A.OrgID, run), Org: w.A.OrgID, ID: run, Status: "RUNNING", Fence: runstate.FenceCancel})
	assert.JSONEq(t, `{"cancelled": true}`, string(w.ask(t, w.token, "save_file", 0).Require(t, 200).Body))
	w.Clock.Advance(2 * time.Minute)
	w.ask(t, w.token, "save_file", 0).Require(t, 401)
}

// TestFilesDoNotCountAsLogPosts checks that files have a limit of their own, so
// that they do not displace the log.
func TestFilesDoNotCountAsLogPosts(t *testing.T) {
	w := open(t)
	status := 200
	for i := range 60 {
		if status = w.ask(t, w.token, "save_file", i).Code; status != 200 {
			break
		}
	}
	require.Equal(t, 429, status)
	w.post(t, w.token, line("still")).Require(t, 200)
	w.Clock.Advance(time.Second)
	w.ask(t, w.token, "save_file", 60).Require(t, 200)
}
