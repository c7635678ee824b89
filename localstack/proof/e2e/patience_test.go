package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/dispatch"
	"millrace/functions/flows"
	"millrace/functions/runs"
	"millrace/functions/schedulertick"
	"millrace/functions/taskworker"
	"millrace/localstack/embedded/runtime"
	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/run/registry"
	"millrace/shared/run/sandbox"
	"millrace/shared/web/fn"
)

// settling replaces the Python tasks of the example patience, because
// interpreters do not use a bubble's clock.
type settling struct{}

func (settling) Run(_ context.Context, req sandbox.Request, _ func(sandbox.LogEvent)) (sandbox.Result, error) {
	var output string
	switch req.TaskName {
	case "submit":
		output = fmt.Sprintf(`{"reference":"T-%s"}`, req.Params["amount"])
	case "confirm":
		var submitted struct{ Reference string }
		var waited float64
		if err := errors.Join(json.Unmarshal(req.Inputs["submitted"].Value, &submitted), json.Unmarshal(req.Inputs["waited"].Value, &waited)); err != nil {
			return sandbox.Result{}, err
		}
		output = fmt.Sprintf(`{"reference":%q,"hours":%g}`, submitted.Reference, waited/3600)
	}
	return sandbox.Result{Output: json.RawMessage(output), OutputBytes: int64(len(output))}, nil
}

func (settling) Close() error { return nil }

// TestPatience runs the example that waits two hours: with the bubble's clock
// through the router, and locally with the wait stubbed.
func TestPatience(t *testing.T) {
	t.Parallel()
	p := python{home: t.TempDir(), dir: exampleDir(t, "patience")}
	spec, archive, _ := pack(t, p, "")
	local := onThisMachine(t, p, "flow.py")
	// Stubbed tasks have no attempt.
	require.Equal(t, []string{"checked#1 SUCCEEDED  ", "clearing SUCCEEDED", "confirm#1 SUCCEEDED  ", "submit#1 SUCCEEDED  "}, local.Tasks)

	synctest.Test(t, func(t *testing.T) {
		specs := []fn.Spec{taskworker.Spec, dispatch.Spec, schedulertick.Spec}
		env := localtest.Open(t, localtest.Options{Sandbox: settling{}, Blob: &blobtest.Memory{}, Config: fn.Config{LongLived: true}}, runs.Spec, flows.Spec)
		rt, err := runtime.New(runtime.Config{Specs: specs, Deps: env.Deps, Workers: 2})
		require.NoError(t, err)
		rt.Start(specs, true)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			rt.Stop(ctx)
		})
		key := env.A.OrgID + "/artifacts/settle/1/patience.zip"
		_, err = env.Deps.Blob.Put(t.Context(), key, bytes.NewReader(archive), int64(len(archive)), blob.PutOptions{})
		require.NoError(t, err)
		env.Do(t, env.A.Key, "POST", "/flows", map[string]any{
			"flow_name": "settle", "flow_version": "1", "artifact_store_uri": registry.ArtifactURI(key), "flow_spec": json.RawMessage(spec),
		}).Require(t, 200)

		began := time.Now()
		id := env.Do(t, env.A.Key, "POST", "/runs", map[string]any{"flow_name": "settle", "flow_version": "1"}).Require(t, 200).String(t, "run_id")
		time.Sleep(119 * time.Minute)
		require.Equal(t, "RUNNING", env.Do(t, env.A.Key, "GET", "/runs/"+id, nil).String(t, "status"))
		time.Sleep(2 * time.Minute)
		run := env.Do(t, env.A.Key, "GET", "/runs/"+id, nil).Require(t, 200)
		assert.Equal(t, local.Status, run.String(t, "status"))
		result, err := json.Marshal(run.Get(t, "result"))
		require.NoError(t, err)
		assert.JSONEq(t, local.Result, string(result))
		assert.JSONEq(t, `{"reference":"T-250","hours":2}`, local.Result)
		var detail struct {
			DurationMS int64            `json:"duration_ms"`
			TaskRuns   []map[string]any `json:"task_runs"`
		}
		run.Into(t, &detail)
		for _, r := range detail.TaskRuns {
			output, err := json.Marshal(r["output"])
			require.NoError(t, err)
			assert.JSONEq(t, local.Outputs[r["task_name"].(string)], string(output), r["task_name"])
		}
		assert.Len(t, detail.TaskRuns, len(local.Outputs))
		assert.InDelta(t, 2*time.Hour.Milliseconds(), detail.DurationMS, float64(time.Minute.Milliseconds()))
		assert.Equal(t, 121*time.Minute, time.Since(began))
	})
}
