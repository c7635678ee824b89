package conductor

import (
	"fmt"
	"strings"
	"time"

	"millrace/shared/engine"
	"millrace/shared/runlog"
	"millrace/shared/runstate"
)

// log writes an event about the run as a whole.
func (s *session) log(kind, level, format string, args ...any) {
	s.Logs.Append(s.org, s.id, runlog.Event{
		EventType: kind, Level: level, RunID: s.id, Logger: "millrace",
		Message: fmt.Sprintf(format, args...), Timestamp: millis(s.Clock.Now()),
	})
}

// event logs something that happened to an attempt.
func (s *session) event(w *work, kind, level, format string, args ...any) {
	e := s.attemptEvent(w)
	e.EventType, e.Level, e.Logger = kind, level, "millrace"
	e.Message, e.Timestamp = fmt.Sprintf(format, args...), millis(s.Clock.Now())
	s.Logs.Append(s.org, s.id, e)
}

// line logs a line that a task wrote.
func (s *session) line(w *work, at time.Time, level, logger, message string) {
	e := s.attemptEvent(w)
	e.EventType, e.Level, e.Logger, e.Message = runlog.TypeLog, level, logger, message
	if at.IsZero() {
		at = s.Clock.Now()
	}
	e.Timestamp, e.Sequence = millis(at), w.lines.Add(1)
	s.Logs.Append(s.org, s.id, e)
}

// attemptID is the id of an attempt's record.
func (s *session) attemptID(w *work) string {
	if w.id == "" {
		w.id = runstate.TaskRunID(s.id, w.node, w.item.Attempt)
	}
	return w.id
}

func (s *session) attemptEvent(w *work) runlog.Event {
	e := runlog.Event{RunID: s.id, Attempt: w.item.Attempt, TaskRunID: s.attemptID(w)}
	if w.task != nil {
		e.TaskName = w.task.Name
	}
	if w.ref.Kind == engine.KindInstance {
		e.MapIndex = &w.ref.Index
	}
	return e
}

func took(item *runstate.Node) time.Duration {
	return item.EndedAt.Time().Sub(item.StartedAt.Time())
}

// clip cuts a message to what a record keeps.
func clip(s string) string {
	if len(s) <= runstate.MaxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:runstate.MaxMessage], "") + "…"
}

// mapEvent logs something that happened to a mapped task as a whole.
func (s *session) mapEvent(task int, kind, level, text string) {
	s.Logs.Append(s.org, s.id, runlog.Event{
		EventType: kind, Level: level, Logger: "millrace", RunID: s.id, TaskName: s.flow.Tasks[task].Name,
		Message: text, Timestamp: millis(s.Clock.Now()),
	})
}
