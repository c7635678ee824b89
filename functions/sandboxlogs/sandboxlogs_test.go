package sandboxlogs_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/sandboxlogs"
	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/platform/keyring"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
	"millrace/shared/run/sandbox"
	"millrace/shared/run/sandbox/ticket"
	"millrace/shared/web/fn"
)

var key = bytes.Repeat([]byte{9}, ticket.MinKey)

const (
	run  = "01K5RUN00000000000000000000"
	node = 4
)

// world is a workspace with a run that executes a node's second attempt.
type world struct {
	*localtest.Env
	token string
}

func open(t *testing.T) *world {
	t.Helper()
	w := &world{Env: localtest.Open(t, localtest.Options{Config: fn.Config{AttemptKeys: keyring.Static(key)}, Blob: &blobtest.Memory{}}, sandboxlogs.Spec)}
	w.put(t, runstate.Run{Key: runstate.RunKey(w.A.OrgID, run), Org: w.A.OrgID, ID: run, Status: engine.Running})
	w.put(t, runstate.Node{Key: runstate.NodeKey(w.A.OrgID, run, node), Status: engine.Running, Attempt: 2})
	w.token = ticket.Sign(key, ticket.Attempt{
		Org: w.A.OrgID, Run: run, Node: node, Number: 2, Task: "load", Expires: w.Clock.Now().Add(time.Minute).Unix(),
	})
	return w
}

func (w *world) put(t *testing.T, item any) {
	t.Helper()
	require.NoError(t, w.Deps.Table.Put(t.Context(), table.Put{Item: item}))
}

func (w *world) post(t *testing.T, token string, events ...map[string]any) *localtest.Response {
	t.Helper()
	if events == nil {
		events = []map[string]any{}
	}
	return w.Do(t, token, "POST", sandboxlogs.Path, map[string]any{"events": events})
}

func line(message string) map[string]any {
	return map[string]any{"timestamp": "2026-01-31T00:00:00.000Z", "level": "info", "logger": "stdout", "message": message, "sequence": 1}
}

// log reads the stored log of the run, as another process would.
func (w *world) log(t *testing.T) []runlog.Event {
	t.Helper()
	w.Clock.Advance(time.Second)
	other := &runlog.Store{Table: w.Deps.Table, Blob: w.Deps.Blob, Clock: w.Clock, Log: w.Deps.Log}
	page, err := other.Page(t.Context(), w.A.OrgID, run, false, "", 100)
	require.NoError(t, err)
	out := make([]runlog.Event, len(page.Events))
	for i, e := range page.Events {
		require.NoError(t, json.Unmarshal(e, &out[i]))
	}
	return out
}

func TestAcknowledgedLogIsStored(t *testing.T) {
	w := open(t)
	res := w.post(t, w.token, line("one"), line("two")).Require(t, 200)
	assert.JSONEq(t, `{"cancelled": false}`, string(res.Body))
	got := w.log(t)
	require.Len(t, got, 2)
	assert.Equal(t, "two", got[1].Message)
	assert.Equal(t, "load", got[0].TaskName)
	assert.Equal(t, run+"-4-2", got[0].TaskRunID)
	assert.Equal(t, 2, got[0].Attempt)
	assert.Equal(t, runlog.TypeLog, got[0].EventType)
}

// TestFieldsAreKept: what ctx.log was given besides its message stays an object, with
// its numbers as they were; more of it than a line may have is left out.
func TestFieldsAreKept(t *testing.T) {
	w := open(t)
	with := func(message string, fields any) map[string]any {
		out := line(message)
		out["fields"] = fields
		return out
	}
	w.post(t, w.token,
		with("some", map[string]any{"rows": json.RawMessage("12345678901234567890"), "source": "örders", "deep": map[string]any{"ok": []any{true, nil, 1.5}}}),
		with("none", map[string]any{}),
		with("many", map[string]any{"x": strings.Repeat("x", 2*sandbox.MaxFields)}),
		line("without"),
	).Require(t, 200)
	got := w.log(t)
	require.Len(t, got, 4)
	assert.Equal(t, `{"deep":{"ok":[true,null,1.5]},"rows":12345678901234567890,"source":"örders"}`, string(got[0].Fields))
	for _, e := range got[1:] {
		assert.Empty(t, e.Fields, e.Message)
	}

	for _, bad := range []any{"text", []any{1}, 5} {
		w.post(t, w.token, with("bad", bad)).Require(t, 422)
	}
	assert.Len(t, w.log(t), 4)
}

func TestOnlyAttemptTokensMayPost(t *testing.T) {
	w := open(t)
	other := ticket.Sign(bytes.Repeat([]byte{8}, ticket.MinKey), ticket.Attempt{Org: w.A.OrgID, Run: run, Node: node, Number: 2, Expires: w.Clock.Now().Unix() + 60})
	for name, token := range map[string]string{"none": "", "an API key": w.A.Key, "another key's": other, "a cut one": w.token[:len(w.token)-1]} {
		w.post(t, token, line("forged")).Require(t, 401)
		assert.Empty(t, w.log(t), name)
	}
	w.Clock.Advance(2 * time.Minute)
	w.post(t, w.token, line("late")).Require(t, 401)
	assert.Empty(t, w.log(t))

	// A token of another workspace gives no access to this one.
	strange := ticket.Sign(key, ticket.Attempt{Org: w.B.OrgID, Run: run, Node: node, Number: 2, Expires: w.Clock.Now().Unix() + 60})
	res := w.post(t, strange, line("stray")).Require(t, 200)
	assert.JSONEq(t, `{"cancelled": true}`, string(res.Body))
	assert.Empty(t, w.log(t))

	unset := localtest.Open(t, localtest.Options{Blob: &blobtest.Memory{}}, sandboxlogs.Spec)
	unset.Do(t, w.token, "POST", sandboxlogs.Path, map[string]any{"events": []any{}}).Require(t, 401)
}

func TestFence(t *testing.T) {
	for name, tc := range map[string]struct {
		change    func(r *runstate.Run, n *runstate.Node)
		cancelled bool
		kept      int
	}{
		"running":         {func(*runstate.Run, *runstate.Node) {}, false, 1},
		"cancelled":       {func(r *runstate.Run, _ *runstate.Node) { r.Fence = runstate.FenceCancel }, true, 1},
		"past deadline":   {func(r *runstate.Run, _ *runstate.Node) { r.Deadline = 1 }, true, 1},
		"over":            {func(r *runstate.Run, _ *runstate.Node) { r.Status = engine.Failed }, true, 0},
		"another attempt": {func(_ *runstate.Run, n *runstate.Node) { n.Attempt = 3 }, true, 1},
		"finished":        {func(_ *runstate.Run, n *runstate.Node) { n.Status = engine.Succeeded }, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			r := runstate.Run{Key: runstate.RunKey(w.A.OrgID, run), Org: w.A.OrgID, ID: run, Status: engine.Running}
			n := runstate.Node{Key: runstate.NodeKey(w.A.OrgID, run, node), Status: engine.Running, Attempt: 2}
			tc.change(&r, &n)
			w.put(t, r)
			w.put(t, n)
			res := w.post(t, w.token, line("one")).Require(t, 200)
			assert.JSONEq(t, fmt.Sprintf(`{"cancelled": %v}`, tc.cancelled), string(res.Body))
			assert.Len(t, w.log(t), tc.kept)
		})
	}
}

func TestLimits(t *testing.T) {
	w := open(t)
	w.post(t, w.token, line(strings.Repeat("x", 2<<20))).Require(t, 413)
	many := make([]map[string]any, 1001)
	for i := range many {
		many[i] = line("x")
	}
	w.post(t, w.token, many...).Require(t, 422)
	status := 200
	for range 60 {
		if status = w.post(t, w.token).Code; status != 200 {
			break
		}
	}
	assert.Equal(t, 429, status, "an attempt posts no more than it may")
	w.Clock.Advance(time.Second)
	w.post(t, w.token).Require(t, 200)
}
