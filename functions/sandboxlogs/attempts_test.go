package sandboxlogs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	sqs "github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/functions/sandboxlogs"
	"millrace/localstack/proof/fixture"
	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/platform/keyring"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/launch"
	"millrace/shared/run/runstate"
	"millrace/shared/run/sandbox/invoke"
	"millrace/shared/web/fn"
)

// lambda records the different tokens of the events that it accepts.
type lambda struct{ tokens []string }

func (l *lambda) RoundTrip(r *http.Request) (*http.Response, error) {
	var event struct{ Token string }
	data, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(data, &event)
	}
	if !slices.Contains(l.tokens, event.Token) { // an event may be sent again
		l.tokens = append(l.tokens, event.Token)
	}
	return &http.Response{StatusCode: http.StatusAccepted, Request: r, Body: http.NoBody, Header: http.Header{}}, err
}

// dispatched starts a run of two Python tasks, one after the other, whose first
// one is handed off.
func dispatched(t *testing.T) (w *localtest.Env, l *lambda, id string) {
	t.Helper()
	l = &lambda{}
	box, err := invoke.New(invoke.Config{Prefix: "sandbox-", Keys: keyring.Static(key), AWS: func(context.Context) (aws.Config, error) {
		return aws.Config{
			Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""), HTTPClient: &http.Client{Transport: l},
		}, nil
	}})
	require.NoError(t, err)
	w = localtest.Open(t, localtest.Options{Config: fn.Config{AttemptKeys: keyring.Static(key)}, Blob: &blobtest.Memory{}, Sandbox: box}, sandboxlogs.Spec)
	ctx := fixture.Owner(t.Context(), w.A.OrgID)
	require.NoError(t, fixture.Register(ctx, w.Deps.Table, w.Deps.Blob, "f", `{"tasks": [
		{"name": "a", "type": "python", "entrypoint": "flow:a"}, {"name": "b", "type": "python", "entrypoint": "flow:b", "depends_on": ["a"]}]}`))
	run, err := w.Deps.Launcher().Accept(ctx, w.A.OrgID, launch.Request{Flow: "f", Version: "1", Trigger: launch.Manual})
	require.NoError(t, err)
	got, err := w.Deps.Queues.Receive(ctx, events.Tasks("nano"), 10, 0)
	require.NoError(t, err)
	require.Len(t, got, 1)
	out, err := w.Deps.Tasks().Messages(ctx, sqs.SQSEvent{Records: []sqs.SQSMessage{{
		MessageId: got[0].ID, ReceiptHandle: got[0].Receipt, Body: string(got[0].Body), EventSourceARN: "arn:aws:sqs:local:000000000000:" + events.Tasks("nano"),
		Attributes: map[string]string{"ApproximateReceiveCount": "1"},
	}}})
	require.NoError(t, err)
	require.Empty(t, out.BatchItemFailures)
	require.Len(t, l.tokens, 1)
	return w, l, run.ID
}

// TestRunnersFinishRun lets runners begin and complete the tasks of a run, with
// no worker in between.
func TestRunnersFinishRun(t *testing.T) {
	w, l, id := dispatched(t)
	post := func(token, path string, body map[string]any) *localtest.Response {
		return w.Do(t, token, "POST", path, body)
	}
	status := func(n engine.Node) engine.Status {
		item, err := runstate.LoadNode(t.Context(), w.Deps.Table, w.A.OrgID, id, n)
		require.NoError(t, err)
		require.NotNil(t, item)
		return item.Status
	}
	for i, name := range []string{"a", "b"} {
		require.Len(t, l.tokens, i+1)
		token := l.tokens[i]
		assert.Equal(t, engine.Queued, status(engine.Node(i)))
		start := post(token, sandboxlogs.StartPath, map[string]any{"runner": "one"}).Require(t, 200)
		assert.Equal(t, engine.Running, status(engine.Node(i)))
		var started struct{ Request map[string]any }
		require.NoError(t, json.Unmarshal(start.Body, &started))
		assert.Equal(t, "flow:"+name, started.Request["entrypoint"])
		post(token, sandboxlogs.StartPath, map[string]any{"runner": "one"}).Require(t, 200)
		post(token, sandboxlogs.StartPath, map[string]any{"runner": "two"}).Require(t, 409)

		beat := post(token, sandboxlogs.Path, map[string]any{"runner": "one", "renew": true, "events": []any{line("at work")}}).Require(t, 200)
		assert.JSONEq(t, `{"cancelled": false}`, string(beat.Body))
		beat = post(token, sandboxlogs.Path, map[string]any{"runner": "two", "renew": true, "events": []any{}}).Require(t, 200)
		assert.JSONEq(t, `{"cancelled": true}`, string(beat.Body), "another's lease is not renewed")

		complete := map[string]any{"runner": "one", "events": []any{line("done")}, "answer": map[string]any{"output": name, "output_bytes": 3, "task_secs": 1}}
		post(token, sandboxlogs.CompletePath, map[string]any{"runner": "two", "answer": map[string]any{"output": "forged"}}).Require(t, 409)
		for range 2 {
			post(token, sandboxlogs.CompletePath, complete).Require(t, 200)
		}
		assert.Equal(t, engine.Succeeded, status(engine.Node(i)))
		post(token, sandboxlogs.StartPath, map[string]any{"runner": "one"}).Require(t, 409)
	}
	run, err := runstate.GetRun(t.Context(), w.Deps.Table, w.A.OrgID, id, time.Now())
	require.NoError(t, err)
	assert.Equal(t, engine.Succeeded, run.Status)
	page, err := w.Deps.Logs.Page(t.Context(), w.A.OrgID, id, true, "", 100)
	require.NoError(t, err)
	text := string(bytes.Join(asBytes(page.Events), nil))
	assert.Equal(t, 2, strings.Count(text, `"at work"`))
	assert.GreaterOrEqual(t, strings.Count(text, `"done"`), 2)
	for _, name := range []string{"a", "b"} { // a start is stored with the first lines, once
		started := fmt.Sprintf(`"message":"Task %s started"`, name)
		require.Equal(t, 1, strings.Count(text, started), text)
		_, rest, _ := strings.Cut(text, started)
		assert.Equal(t, map[string]int{"a": 2, "b": 1}[name], strings.Count(rest, `"at work"`), text)
	}
}

// refusing refuses to store log batches.
type refusing struct{ table.Table }

func (refusing) Put(context.Context, table.Put) error { return table.ErrThrottled }

// TestStartOfLostPostIsKnownToLack: a post whose lines are not stored leaves the
// mark that the log lacks the start, for whoever logs of the attempt next.
func TestStartOfLostPostIsKnownToLack(t *testing.T) {
	w, l, id := dispatched(t)
	w.Do(t, l.tokens[0], "POST", sandboxlogs.StartPath, map[string]any{"runner": "one"}).Require(t, 200)
	unlogged := func() bool {
		item, err := runstate.LoadNode(t.Context(), w.Deps.Table, w.A.OrgID, id, 0)
		require.NoError(t, err)
		return item.Unlogged
	}
	w.Deps.Logs.Table = refusing{w.Deps.Table}
	post := map[string]any{"runner": "one", "events": []any{line("at work")}}
	w.Do(t, l.tokens[0], "POST", sandboxlogs.Path, post).Require(t, 503)
	assert.True(t, unlogged())
	w.Deps.Logs.Table = w.Deps.Table
	w.Do(t, l.tokens[0], "POST", sandboxlogs.Path, post).Require(t, 200)
	assert.False(t, unlogged())
}

// TestRunnerGoesOn lets one runner make both tasks of a run: the completion of
// the first begins the second.
func TestRunnerGoesOn(t *testing.T) {
	w, l, id := dispatched(t)
	post := func(token, path string, body map[string]any) *localtest.Response {
		return w.Do(t, token, "POST", path, body)
	}
	post(l.tokens[0], sandboxlogs.StartPath, map[string]any{"runner": "one"}).Require(t, 200)
	complete := func(output string) map[string]any {
		return map[string]any{"runner": "one", "remaining_secs": 800, "answer": map[string]any{"output": output, "output_bytes": 3, "task_secs": 1}}
	}
	late := complete("a")
	late["remaining_secs"] = 901
	post(l.tokens[0], sandboxlogs.CompletePath, late).Require(t, 422)
	var got [2]struct {
		Next struct {
			Token   string
			Request map[string]any
		}
	}
	for i := range got { // the first answer may be lost
		require.NoError(t, json.Unmarshal(post(l.tokens[0], sandboxlogs.CompletePath, complete("a")).Require(t, 200).Body, &got[i]))
		assert.Equal(t, "flow:b", got[i].Next.Request["entrypoint"])
	}
	assert.Equal(t, got[0].Next.Token, got[1].Next.Token)
	item, err := runstate.LoadNode(t.Context(), w.Deps.Table, w.A.OrgID, id, 1)
	require.NoError(t, err)
	assert.Equal(t, engine.Running, item.Status)
	assert.Equal(t, 1, item.Attempt)
	token := got[0].Next.Token
	post(token, sandboxlogs.StartPath, map[string]any{"runner": "two"}).Require(t, 409)
	post(token, sandboxlogs.CompletePath, map[string]any{"runner": "two", "answer": map[string]any{"output": "forged"}}).Require(t, 409)
	beat := post(token, sandboxlogs.Path, map[string]any{"runner": "one", "renew": true, "events": []any{line("at work")}}).Require(t, 200)
	assert.JSONEq(t, `{"cancelled": false}`, string(beat.Body))
	assert.JSONEq(t, `{}`, string(post(token, sandboxlogs.CompletePath, complete("b")).Require(t, 200).Body))
	run, err := runstate.GetRun(t.Context(), w.Deps.Table, w.A.OrgID, id, w.Deps.Clock.Now())
	require.NoError(t, err)
	assert.Equal(t, engine.Succeeded, run.Status)
	assert.Len(t, l.tokens, 1, "one invocation made both")
}

func asBytes(in []json.RawMessage) (out [][]byte) {
	for _, raw := range in {
		out = append(out, raw)
	}
	return out
}

func TestInvalidRunnersAreRejected(t *testing.T) {
	w, l, _ := dispatched(t)
	answer := map[string]any{"output": 1}
	for _, path := range []string{sandboxlogs.StartPath, sandboxlogs.CompletePath} {
		w.Do(t, "", "POST", path, map[string]any{"runner": "one", "answer": answer}).Require(t, 401)
		w.Do(t, w.A.Key, "POST", sandboxlogs.CompletePath, map[string]any{"runner": "one", "answer": answer}).Require(t, 401)
		w.Do(t, l.tokens[0], "POST", path, map[string]any{}).Require(t, 422)
		w.Do(t, l.tokens[0], "POST", path, map[string]any{"runner": ""}).Require(t, 422)
	}
	w.Do(t, "", "POST", sandboxlogs.StartPath, map[string]any{"runner": "one"}).Require(t, 401)
	w.Do(t, l.tokens[0], "POST", sandboxlogs.CompletePath, map[string]any{"runner": "one", "answer": answer}).Require(t, 409)
	assert.Len(t, l.tokens, 1)
}
