package interpreters

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/run/sandbox"
)

// The body of a request frame has only what the runner reads: no link, and
// nothing about the workspace.
func TestRequestFrame(t *testing.T) {
	t.Parallel()
	link := func(context.Context) (string, error) { return "https://s3.test/verysecret", nil }
	index := 2
	var buf bytes.Buffer
	require.NoError(t, encodeRequest(&buf, newNonce(), &sandbox.Request{
		Workspace: "org_a", Tier: "small", RunID: "RUN", FlowName: "f", FlowVersion: "1", TaskName: "t",
		TaskRunID: "RUN-7-3", Attempt: 3, MapIndex: &index, Item: json.RawMessage(`{"a":1}`),
		Artifact: sandbox.Artifact{Hash: "h", URL: link}, Entrypoint: "m:f",
		Inputs:  map[string]sandbox.Input{"up": {Value: json.RawMessage(`[1]`)}, "far": {URL: link}},
		Params:  map[string]json.RawMessage{"p": json.RawMessage(`12345678901234567890`)},
		Secrets: map[string]string{"token": "hush-hush"}, TraceParent: "00-01", Timeout: time.Hour, OutputURL: link, Reserved: true,
	}, 90*time.Second, time.Minute, false))
	assert.JSONEq(t, `{"run_id": "RUN", "flow_name": "f", "flow_version": "1", "task_name": "t", "task_run_id": "RUN-7-3",
		"attempt": 3, "map_index": 2, "item": {"a": 1}, "entrypoint": "m:f", "timeout_secs": 90, "import_timeout_secs": 60,
		"inputs": {"up": {"value": [1]}, "far": {"fetch": "far"}}, "params": {"p": 12345678901234567890},
		"secrets": {"token": "hush-hush"}, "traceparent": "00-01"}`, string(buf.Bytes()[head:]))
}
