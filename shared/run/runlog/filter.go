package runlog

import (
	"encoding/json"
	"slices"
	"time"
)

// Levels are the levels of events, the least first.
var levels = []string{"debug", "info", "warning", "error", "critical"}

// Filter selects events of a log. The zero Filter selects all.
type Filter struct {
	Task  string    // only of this task
	Level string    // only of this level and those above; an event without one counts as info
	Since time.Time // only of then or later
}

// filterBytes is how much of a log a page goes through for the events that a filter
// selects: it may come out empty and not be the last.
const filterBytes = 16 << 20

func (f Filter) zero() bool { return f == Filter{} }

// keeps reports whether the filter selects the event of a line.
func (f Filter) keeps(line []byte) bool {
	if f.zero() {
		return true
	}
	var e struct {
		TaskName  string    `json:"task_name"`
		Level     string    `json:"level"`
		Timestamp time.Time `json:"timestamp"`
	}
	if json.Unmarshal(line, &e) != nil {
		return false
	}
	return (f.Task == "" || e.TaskName == f.Task) && (f.Level == "" || rank(e.Level) >= rank(f.Level)) && !e.Timestamp.Before(f.Since)
}

func rank(level string) int {
	if i := slices.Index(levels, level); i >= 0 {
		return i
	}
	return slices.Index(levels, "info")
}
