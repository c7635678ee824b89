// Package runlog stores the logs of runs. Events are buffered and written in
// batches to the run's log partition while it runs; when it has ended they
// become one compressed archive. Reading pages works the same before and after.
package runlog

import (
	"bytes"
	"encoding/json"
	"fmt"

	"millrace/shared/platform/clock"
)

// The event types.
const (
	TypeLog           = "log" // a line written by a task
	TypeRunStarted    = "run_started"
	TypeRunFinished   = "run_finished"
	TypeTaskStarted   = "task_started"
	TypeTaskSucceeded = "task_succeeded"
	TypeTaskFailed    = "task_failed"
	TypeTaskRetrying  = "task_retrying"
	TypeTaskSkipped   = "task_skipped"
	TypeTaskCancelled = "task_cancelled"
	TypeTaskLost      = "task_lost"
	TypeTaskWaiting   = "task_waiting"
	TypeTaskReused    = "task_reused"
	TypeTaskDeferred  = "task_deferred" // it could not begin for an external reason
)

// Event is one log event, as in the API's log pages.
type Event struct {
	EventType string       `json:"event_type"`
	Message   string       `json:"message"`
	Timestamp clock.Millis `json:"-"`
	Level     string       `json:"level,omitempty"`
	RunID     string       `json:"run_id,omitempty"`
	TaskName  string       `json:"task_name,omitempty"`
	TaskRunID string       `json:"task_run_id,omitempty"`
	MapIndex  *int         `json:"map_index,omitempty"`
	Attempt   int          `json:"attempt,omitempty"`
	Logger    string       `json:"logger,omitempty"`
	Sequence  int64        `json:"sequence,omitempty"` // increases within one task attempt
	// Fields are the fields passed to ctx.log besides the message, a JSON object;
	// nil for none.
	Fields json.RawMessage `json:"fields,omitempty"`
}

// MaxLine is the largest message of an event in bytes; longer ones are
// truncated.
const MaxLine = 64 << 10

// appendLine appends the event as one line of NDJSON.
func (e Event) appendLine(b *bytes.Buffer) error {
	if len(e.Message) > MaxLine {
		e.Message = fmt.Sprintf("%s… (%d bytes cut)", bytes.ToValidUTF8([]byte(e.Message[:MaxLine]), nil), len(e.Message)-MaxLine)
	}
	enc := json.NewEncoder(b) // appends the newline itself
	enc.SetEscapeHTML(false)
	return enc.Encode(struct {
		Event
		Timestamp string `json:"timestamp"`
	}{e, e.Timestamp.String()})
}
