package runs_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/functions/deployments"
	"millrace/functions/dispatch"
	"millrace/functions/flows"
	"millrace/functions/runs"
	"millrace/functions/taskworker"
	"millrace/localstack/embedded/runtime"
	"millrace/localstack/proof/localtest"
	"millrace/shared/account/audit"
	"millrace/shared/web/fn"
)

type object = map[string]any

// workers are the functions that execute runs.
var workers = []fn.Spec{taskworker.Spec, dispatch.Spec}

// world is the service with the operations of runs.
type world struct{ *localtest.Env }

// idle returns a world without workers: runs stay QUEUED.
func idle(t *testing.T, o ...localtest.Options) world {
	t.Helper()
	options := localtest.Options{Config: fn.Config{LongLived: true}}
	if len(o) > 0 {
		options = o[0]
	}
	return world{localtest.Open(t, options, runs.Spec, flows.Spec, deployments.Spec)}
}

// live returns a world with workers.
func live(t *testing.T) world {
	t.Helper()
	w := idle(t)
	w.work(t)
	return w
}

// work starts the workers.
func (w world) work(t *testing.T) {
	t.Helper()
	rt, err := runtime.New(runtime.Config{Specs: workers, Deps: w.Deps, Workers: 8})
	require.NoError(t, err)
	rt.Start(workers, false)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		rt.Stop(ctx)
	})
}

// flow registers a version.
func (w world) flow(t *testing.T, name, version string, spec object) {
	t.Helper()
	w.Do(t, w.A.Key, "POST", "/flows", object{"flow_name": name, "flow_version": version, "flow_spec": spec}).Require(t, 200)
}

// run starts a run and returns its id.
func (w world) run(t *testing.T, body object) string {
	t.Helper()
	return w.Do(t, w.A.Key, "POST", "/runs", body).Require(t, 200).String(t, "run_id")
}

// finish starts a run and returns its detail after its end.
func (w world) finish(t *testing.T, flow string, params object) detail {
	t.Helper()
	var d detail
	w.Do(t, w.A.Key, "POST", "/runs", object{"flow_name": flow, "flow_version": "1", "parameters": params, "execute": true}).Require(t, 200).Into(t, &d)
	return d
}

func (w world) get(t *testing.T, id string) detail {
	t.Helper()
	var d detail
	w.Do(t, w.A.Key, "GET", "/runs/"+id, nil).Require(t, 200).Into(t, &d)
	return d
}

// ended waits until a run has ended.
func (w world) ended(t *testing.T, id string) detail {
	t.Helper()
	var d detail
	require.Eventually(t, func() bool {
		d = w.get(t, id)
		switch d.Status {
		case "SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED":
			return true
		}
		return false
	}, time.Minute, 5*time.Millisecond)
	return d
}

// detail is a run as a client reads it.
type detail struct {
	RunID           string         `json:"run_id"`
	RunSlug         string         `json:"run_slug"`
	FlowName        string         `json:"flow_name"`
	FlowVersion     string         `json:"flow_version"`
	Deployment      *string        `json:"deployment"`
	Environment     string         `json:"environment"`
	ExecutionMode   string         `json:"execution_mode"`
	TriggerSource   string         `json:"trigger_source"`
	Status          string         `json:"status"`
	CreatedAt       string         `json:"created_at"`
	StartedAt       *string        `json:"started_at"`
	EndedAt         *string        `json:"ended_at"`
	DurationMS      *int64         `json:"duration_ms"`
	TriggeredBy     *string        `json:"triggered_by"`
	ErrorMessage    *string        `json:"error_message"`
	Reason          *string        `json:"reason"`
	CancelledBy     *string        `json:"cancelled_by"`
	CancelledAt     *string        `json:"cancelled_at"`
	ParentRunID     *string        `json:"parent_run_id"`
	Partial         *bool          `json:"partial"`
	ReusedTaskCount *int           `json:"reused_task_count"`
	SkipTaskIDs     []string       `json:"skip_task_ids"`
	Parameters      map[string]any `json:"parameters"`
	TaskRuns        []taskRun      `json:"task_runs"`
}

type taskRun struct {
	TaskName     string  `json:"task_name"`
	TaskRunID    string  `json:"task_run_id"`
	MapIndex     *int    `json:"map_index"`
	Attempt      int     `json:"attempt"`
	Status       string  `json:"status"`
	Reason       *string `json:"reason"`
	StartedAt    *string `json:"started_at"`
	EndedAt      *string `json:"ended_at"`
	DurationMS   *int64  `json:"duration_ms"`
	ErrorType    *string `json:"error_type"`
	ErrorMessage *string `json:"error_message"`
	Exception    *string `json:"exception"`
	Traceback    *string `json:"traceback"`
	QueuedMS     *int64  `json:"queued_ms"`
	Output       any     `json:"output"`
	OutputURI    *string `json:"output_uri"`
	Executor     string  `json:"executor"`
}

// brief formats records as name[index]#attempt status.
func brief(tasks []taskRun) []string {
	out := make([]string, len(tasks))
	for i, t := range tasks {
		index := ""
		if t.MapIndex != nil {
			index = fmt.Sprintf("[%d]", *t.MapIndex)
		}
		out[i] = fmt.Sprintf("%s%s#%d %s", t.TaskName, index, t.Attempt, t.Status)
	}
	return out
}

func transform(name, expression string, more ...object) object {
	task := object{"name": name, "type": "transform", "config": object{"expression": expression}}
	for _, m := range more {
		for k, v := range m {
			task[k] = v
		}
	}
	return task
}

func tasks(list ...object) object { return object{"tasks": list} }

func after(names ...string) object { return object{"depends_on": names} }

func key(k string) http.Header { return http.Header{"Idempotency-Key": {k}} }

func keysOf(m object) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	return out
}

type response = localtest.Response

// post starts a run with an idempotency key.
func (w world) post(t *testing.T, k, body string) *response {
	t.Helper()
	return w.Send(t, localtest.Request{Credential: w.A.Key, Method: "POST", Path: "/runs", Body: body, Header: key(k)})
}

// others returns the operations of the other domains.
func (w world) others() []string {
	var out []string
	for _, op := range w.API.Operations() {
		if op.Function != "runs" {
			out = append(out, op.ID)
		}
	}
	return out
}

// audited returns the only audit entry of an action on a run.
func (w world) audited(t *testing.T, run, action string) audit.Record {
	t.Helper()
	var found []audit.Record
	for _, r := range w.Audit(t, w.A.OrgID) {
		if r.ResourceType == "run" && r.ResourceID == run && r.Action == action {
			found = append(found, r)
		}
	}
	require.Len(t, found, 1, "entries of %s %s", action, run)
	return found[0]
}
