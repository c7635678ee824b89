package worker

import (
	"fmt"
	"strings"
	"time"

	"millrace/shared/platform/clock"
	"millrace/shared/run/engine"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
	"millrace/shared/run/sandbox"
)

// journal writes the log of a run.
type journal struct {
	*Worker
	org, id string
}

// log writes an event about the run as a whole.
func (j *journal) log(kind, level, format string, args ...any) {
	j.Logs.Append(j.org, j.id, runlog.Event{
		EventType: kind, Level: level, RunID: j.id, Logger: "millrace",
		Message: fmt.Sprintf(format, args...), Timestamp: millis(j.Clock.Now()),
	})
}

// event logs an event of an attempt.
func (j *journal) event(w *attempt, kind, level, format string, args ...any) {
	var logged []runlog.Event
	if at := w.unlogged; at != 0 { //guard:unlogged/first false
		w.unlogged = 0
		logged = append(logged, j.startEvent(w, at))
	}
	j.Logs.Append(j.org, j.id, append(logged, j.eventAt(w, millis(j.Clock.Now()), kind, level, format, args...))...)
}

// startEvent returns the event of an attempt's start.
func (j *journal) startEvent(w *attempt, at clock.Millis) runlog.Event {
	return j.eventAt(w, at, runlog.TypeTaskStarted, "info", "Task %s started%s", w.task.Name, attemptSuffix(w.item.Attempt))
}

func (j *journal) eventAt(w *attempt, at clock.Millis, kind, level, format string, args ...any) runlog.Event {
	e := j.attemptEvent(w)
	e.EventType, e.Level, e.Logger = kind, level, "millrace"
	e.Message, e.Timestamp = fmt.Sprintf(format, args...), at
	return e
}

// unlogged returns when a runner began an attempt whose start the log lacks;
// otherwise 0.
func unlogged(item *runstate.Node) clock.Millis {
	if !item.Unlogged || item.Announced {
		return 0
	}
	return item.StartedAt
}

// logEnd logs the end of an attempt once, because the write that ends it may be
// repeated.
func (j *journal) logEnd(w *attempt, kind, level, format string, args ...any) {
	if !w.told {
		w.told = true
		j.event(w, kind, level, format, args...)
	}
}

// line logs a line that a task wrote.
func (j *journal) line(w *attempt, l sandbox.LogEvent) {
	e, at := j.attemptEvent(w), l.Time
	e.EventType, e.Level, e.Logger, e.Message, e.Fields = runlog.TypeLog, l.Level, l.Logger, l.Message, l.Fields
	if at.IsZero() {
		at = j.Clock.Now()
	}
	e.Timestamp, e.Sequence = millis(at), w.lines.Add(1)
	j.Logs.Append(j.org, j.id, e)
}

// attemptID returns the id of an attempt's record. Nodes that never ran have
// one as well.
func (j *journal) attemptID(w *attempt) string {
	if w.id == "" {
		w.id = runstate.TaskRunID(j.id, w.node, max(w.item.Attempt, 1))
	}
	return w.id
}

func (j *journal) attemptEvent(w *attempt) runlog.Event {
	e := runlog.Event{RunID: j.id, Attempt: max(w.item.Attempt, 1), TaskRunID: j.attemptID(w)}
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

// clip truncates a message to the length that a record stores.
func clip(s string) string {
	if len(s) <= runstate.MaxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:runstate.MaxMessage], "") + "…"
}

// mapEvent logs an event of a mapped task as a whole.
func (j *journal) mapEvent(task, kind, level, text string) {
	j.Logs.Append(j.org, j.id, runlog.Event{
		EventType: kind, Level: level, Logger: "millrace", RunID: j.id, TaskName: task,
		Message: text, Timestamp: millis(j.Clock.Now()),
	})
}
