package runlog

import (
	"encoding/json"
	"slices"
	"time"
)

// Levels are the levels of events in ascending order.
var levels = []string{"debug", "info", "warning", "error", "critical"}

// Filter selects events of a log. The zero Filter selects all.
type Filter struct {
	Task  string    // only events of this task
	Level string    // only events of this level or higher; an event without a level has level info
	Since time.Time // only events at or after this time
}

// filterBytes is how much of a log a page of a filtered log reads. The page may
// be empty without being the last.
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
