package events

// The kinds of [Run] messages. Messages survive a deployment, so their names
// must not change.
const (
	RunStart     = "start" // begin the run
	RunTask      = "task"  // try attempt Attempt of node Node
	RunPropagate = "walk"  // propagate the end of node Node to part Part of its dependents or of its instances
	RunReconcile = "look"  // reconcile the run with its plan and repair what was lost
)

// Start is the virtual node before all others. Its dependents are the tasks
// without dependencies.
const Start = -1

// Run is a message about a run. Starts, tasks and propagations go to the queue
// of the run's tier, reconciliations to the queue [Runs]. Its group is the
// workspace.
type Run struct {
	Kind    string `json:"kind"`
	Org     string `json:"org_id"`
	Run     string `json:"run_id"`
	Node    int    `json:"node,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Part    int    `json:"part,omitempty"`
	Type    string `json:"type,omitempty"`         // of the task, so that a worker can prepare before it claims the task
	Delay   int64  `json:"delay_ms,omitempty"`     // delay requested from the queue
	Due     int64  `json:"due_ms,omitempty"`       // Unix time at which the attempt's wait ends, if the message ends one
	Again   bool   `json:"again,omitempty"`        // sent anew in place of a message that was delivered several times
	Timeout *int   `json:"timeout_secs,omitempty"` // of the run to start, in seconds, 0 for none; nil: read the run
	Trace   string `json:"traceparent,omitempty"`  // W3C Trace Context of the request that created the run
}

// DetailRunFinished is the detail type of [RunFinished] on the bus.
const DetailRunFinished = "run.finished"

// RunFinished reports that a run is finished. It is published at least once for
// each run.
type RunFinished struct {
	Org         string `json:"org_id"`
	Run         string `json:"run_id"`
	Slug        string `json:"run_slug"`
	Flow        string `json:"flow_name"`
	Version     string `json:"flow_version"`
	Deployment  string `json:"deployment,omitempty"`
	Environment string `json:"environment"`
	Status      string `json:"status"`
	Trigger     string `json:"trigger_source"`
	TriggeredBy string `json:"triggered_by,omitempty"` // email, api-key:<id>, or what the run stands for, as backfill:<id>
	CreatedAt   string `json:"created_at"`
	StartedAt   string `json:"started_at,omitempty"`
	EndedAt     string `json:"ended_at"`
	DurationMS  int64  `json:"duration_ms"`
	Error       string `json:"error_message,omitempty"`
}

// DetailRunAlert is the detail type of an event whose detail is a [RunFinished].
// It is published besides [DetailRunFinished], at least once, if an alert rule
// of the workspace waits for the end of the run, or an incident may be over.
const DetailRunAlert = "alert.run_finished"

// DetailTaskRetried is the detail type of [TaskRetried] on the bus.
const DetailTaskRetried = "task.retried"

// TaskRetried reports that a task is tried again after an attempt that failed.
// It is published at least once for each such attempt when the next one begins,
// if an alert rule of the workspace waits for it.
type TaskRetried struct {
	Org         string `json:"org_id"`
	Run         string `json:"run_id"`
	Slug        string `json:"run_slug"`
	Flow        string `json:"flow_name"`
	Version     string `json:"flow_version"`
	Environment string `json:"environment"`
	Status      string `json:"status"` // of the run
	StartedAt   string `json:"started_at,omitempty"`
	Task        string `json:"task_name"`
	MapIndex    *int   `json:"map_index,omitempty"` // of an instance of a mapped task
	Attempt     int    `json:"attempt"`             // that failed
	FailedAt    string `json:"failed_at"`
	ErrorType   string `json:"error_type"`
	Error       string `json:"error_message"`
}
