package runs

import (
	"encoding/json"
	"fmt"
	"strings"

	"millrace/shared/platform/clock"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
	"millrace/shared/web/httpapi"
)

// RunRecord is a run in a list.
type RunRecord struct {
	runstate.RunResponse
	StartedAt    *string `json:"started_at"`
	EndedAt      *string `json:"ended_at"`
	DurationMS   *int64  `json:"duration_ms" doc:"From start to end; null until the run has ended, and if it never started"`
	TriggeredBy  *string `json:"triggered_by" doc:"Email of the user, api-key:<key_id>, or what the run stands for: schedule:<schedule_id> or backfill:<backfill_id>"`
	ErrorMessage *string `json:"error_message,omitempty" doc:"Of a FAILED or TIMED_OUT run"`
	Reason       *string `json:"reason" doc:"Why the run has this status, where that needs saying"`
	CancelledBy  *string `json:"cancelled_by,omitempty"`
	CancelledAt  *string `json:"cancelled_at,omitempty"`
	ParentRunID  *string `json:"parent_run_id,omitempty" doc:"Of a retry: the run that it retries"`
}

// RunDetail is a run with its parameters and task attempts.
type RunDetail struct {
	RunRecord
	Partial         *bool                      `json:"partial,omitempty" doc:"Of a retry: whether it reuses results"`
	ReusedTaskCount *int                       `json:"reused_task_count,omitempty" doc:"Of a retry: how many tasks and map instances it was planned to reuse"`
	SkipTaskIDs     []string                   `json:"skip_task_ids,omitzero" doc:"Of a retry: names of the tasks it was planned to reuse"`
	Result          json.RawMessage            `json:"result,omitempty" doc:"Of a run that SUCCEEDED: the value of its flow's result, unless it is given by result_uri; GET /runs/{run_id}/result reads one of any size"`
	ResultURI       *string                    `json:"result_uri,omitempty" doc:"Where a large result is kept"`
	ResultError     *string                    `json:"result_error,omitempty" doc:"Why the flow's result has no value; the run SUCCEEDED all the same"`
	LogicalDate     string                     `json:"logical_date"`
	Parameters      map[string]json.RawMessage `json:"parameters"`
	TaskRuns        []TaskRun                  `json:"task_runs" doc:"One for each attempt of each task or map instance, in the order of the flow_spec, map_index and attempt; on_failure last, if it ran"`
}

// RunList is a list of runs.
type RunList struct {
	Items     []RunRecord `json:"items"`
	NextUntil string      `json:"next_until,omitempty" doc:"With filters: the list went through 10,000 runs and ended early. The same request with until set to this goes on"`
}

// RetryResponse is an accepted retry.
type RetryResponse struct {
	runstate.RunResponse
	ParentRunID     string   `json:"parent_run_id"`
	Partial         bool     `json:"partial" doc:"Whether it is planned to reuse results; false for a full retry"`
	ReusedTaskCount int      `json:"reused_task_count" doc:"Tasks and map instances that are planned to be reused"`
	SkipTaskIDs     []string `json:"skip_task_ids" doc:"Names of the tasks that are planned to be reused"`
}

// CancelResponse reports that a run is cancelled, or will be.
type CancelResponse struct {
	RunID       string `json:"run_id"`
	Status      string `json:"status" enum:"cancellation_requested,cancelled"`
	CancelledBy string `json:"cancelled_by"`
	CancelledAt string `json:"cancelled_at"`
}

// LogPage is a page of a run's log.
type LogPage struct {
	Events    []httpapi.Raw[LogEvent] `json:"events"`
	NextToken string                  `json:"next_token,omitempty" doc:"Follow it while present, even after an empty page; absent at the end of an archive"`
	Source    string                  `json:"source" enum:"live,archive"`
}

// LogEvent is an event of a run's log: a line written by a task, or a change of
// a run or a task.
type LogEvent struct {
	EventType string                     `json:"event_type" doc:"log, or run_started, run_finished, task_started, task_succeeded, task_failed, task_retrying, task_skipped, task_cancelled, task_lost, task_waiting, task_reused, task_deferred; others may come"`
	Message   string                     `json:"message" doc:"Up to 64 KB; a longer one is cut and says so"`
	Timestamp string                     `json:"timestamp" format:"date-time"`
	Level     string                     `json:"level,omitempty" doc:"debug, info, warning, error or critical"`
	RunID     string                     `json:"run_id,omitempty"`
	TaskName  string                     `json:"task_name,omitempty"`
	TaskRunID string                     `json:"task_run_id,omitempty" doc:"Of the attempt, as in its record"`
	MapIndex  *int                       `json:"map_index,omitempty" doc:"Of an instance of a mapped task, from 0"`
	Attempt   int                        `json:"attempt,omitempty" doc:"From 1"`
	Logger    string                     `json:"logger,omitempty" doc:"Of a log event: stdout, stderr, task (ctx.log), traceback, or the name of a logger"`
	Fields    map[string]json.RawMessage `json:"fields,omitempty" doc:"What ctx.log was given besides the message"`
	Sequence  int64                      `json:"sequence,omitempty" doc:"Rises within one attempt"`
}

func record(r *runstate.Run) RunRecord {
	out := RunRecord{
		RunResponse: r.Response(), StartedAt: at(r.StartedAt), EndedAt: at(r.EndedAt),
		DurationMS: between(r.StartedAt, r.EndedAt), TriggeredBy: orNull(r.By), ParentRunID: orNull(r.Parent),
	}
	if r.Status == engine.Failed || r.Status == engine.TimedOut {
		msg := r.Error
		if msg == "" {
			msg = fmt.Sprintf("The run ended with status %s.", r.Status)
		}
		out.ErrorMessage, out.Reason = &msg, &msg
	}
	if r.Fence == runstate.FenceCancel {
		out.CancelledBy, out.CancelledAt = orNull(r.FenceBy), at(r.FenceAt)
	}
	switch r.Status {
	case engine.CancellationRequested:
		out.Reason = ptr("Cancellation was requested by " + r.FenceBy + "; tasks that run are being stopped.")
	case engine.Cancelled:
		out.Reason = ptr("Cancelled by " + r.FenceBy + ".")
	case engine.Running:
		if r.Fence == runstate.FenceDeadline {
			out.Reason = ptr("The run passed its timeout_secs; tasks that run are being stopped.")
		}
	}
	return out
}

func cancelled(r *runstate.Run) CancelResponse {
	return CancelResponse{
		RunID: r.ID, Status: strings.ToLower(string(r.Status)), CancelledBy: r.FenceBy, CancelledAt: r.FenceAt.String(),
	}
}

func ptr[T any](v T) *T { return &v }

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// at returns a time as responses show it, null for none.
func at(m clock.Millis) *string { return orNull(m.String()) }

// between returns the milliseconds from one time to another, null if one is
// missing.
func between(from, to clock.Millis) *int64 {
	if from == 0 || to == 0 {
		return nil
	}
	return ptr(int64(to - from))
}
