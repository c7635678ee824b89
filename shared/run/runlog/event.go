// Package runlog keeps the logs of runs: events are buffered and written in
// batches to the run's log partition while it runs, and become one compressed
// archive when it is over. Reading pages works the same across the switch.
package runlog

import (
	"bytes"
	"encoding/json"
	"fmt"

	"millrace/shared/platform/clock"
)

// The event types.
const (
	TypeLog           = "log" // a line that a task wrote
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
	TypeTaskDeferred  = "task_deferred" // it could not begin, for a cause outside of it
)

// Event is one log event, as the interface's log pages show it.
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
	Sequence  int64        `json:"sequence,omitempty"` // rises within one task attempt
}

// MaxLine is the most bytes of one event's message; longer ones are cut.
const MaxLine = 64 << 10

// appendLine writes the event as one line of NDJSON.
func (e Event) appendLine(b *bytes.Buffer) error {
	if len(e.Message) > MaxLine {
		e.Message = fmt.Sprintf("%s… (%d bytes cut)", bytes.ToValidUTF8([]byte(e.Message[:MaxLine]), nil), len(e.Message)-MaxLine)
	}
	enc := json.NewEncoder(b) // ends the line itself
	enc.SetEscapeHTML(false)
	return enc.Encode(struct {
		Event
		Timestamp string `json:"timestamp"`
	}{e, e.Timestamp.String()})
}
