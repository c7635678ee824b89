package worker_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/executor"
	"millrace/shared/run/runlog"
	"millrace/shared/run/sandbox"
)

// simLine is a log line written by an attempt.
type simLine struct {
	text string
	at   time.Time
	p    *proc
}

// write lets an attempt write lines to its log.
func (s *sim) write(p *proc, a *executor.Attempt, n int) {
	for range n {
		s.mu.Lock()
		line := simLine{fmt.Sprintf("line %d of %s", len(s.lines[a.TaskRunID]), a.TaskRunID), time.Now(), p}
		if p.dead() {
			s.mu.Unlock()
			return
		}
		s.lines[a.TaskRunID] = append(s.lines[a.TaskRunID], line)
		s.mu.Unlock()
		a.Log(sandbox.LogEvent{Level: "info", Logger: "stdout", Message: line.text})
	}
}

// unflushed is how long a line may be only in the memory of a process,
// including the time of a write to the simulated store.
const unflushed = runlog.FlushInterval + 3*time.Second

// checkLines checks that the archive of a run has every line of its attempts
// once, in their order, and that nothing is left besides it. The last lines of
// a killed process may be missing; more of them if the log could not be written
// before.
func (s *sim) checkLines(r *simRun) {
	logs := &runlog.Store{Table: s.store, Blob: s.blob, Clock: clock.System{}, Log: quiet}
	got := map[string][]string{}
	for from, more := table.Cursor(""), true; more; {
		page, err := logs.Page(s.ctx, r.org, r.id, true, from, runlog.MaxLimit)
		if err != nil || page.Source != runlog.Archive {
			s.tell("the log of run %s: %v, from %s", r.id, err, page.Source)
			return
		}
		for _, raw := range page.Events {
			var e runlog.Event
			if err := json.Unmarshal(raw, &e); err != nil {
				s.tell("the log of run %s: %v", r.id, err)
			}
			if e.EventType == runlog.TypeLog {
				got[e.TaskRunID] = append(got[e.TaskRunID], e.Message)
			}
		}
		from, more = page.Next, page.Next != ""
	}
	for attempt, want := range s.lines {
		if strings.HasPrefix(attempt, r.id) {
			s.compareLines(attempt, want, got[attempt])
		}
	}
	for key, id := range s.store.batches {
		if id == r.id && !s.leftByDead(key) {
			s.tell("batch %v of the log of run %s is left behind its archive", key, r.id)
		}
	}
}

// leftByDead reports whether a batch was written by a process that died soon
// after, before it had read the archive. The batch expires.
func (s *sim) leftByDead(batch table.Key) bool {
	item, err := s.store.Get(s.ctx, batch)
	if err != nil || item[table.TTLAttribute].Int() <= time.Now().Unix() {
		return false
	}
	for _, p := range s.named {
		at, wrote := p.puts[batch.SK]
		if wrote && p.dead() && (p.logFailed || at.Add(unflushed).After(p.diedAt)) {
			return true
		}
	}
	return false
}

func (s *sim) compareLines(attempt string, want []simLine, got []string) {
	for _, line := range want {
		switch {
		case len(got) > 0 && got[0] == line.text:
			got = got[1:]
		case line.p.dead() && (line.p.logFailed || line.at.Add(unflushed).After(line.p.diedAt)):
		default:
			s.tell("the archive lacks %q, written at %s in %s; what follows is %.300q", line.text, line.at.Format(time.TimeOnly), line.p.name, got)
			return
		}
	}
	if len(got) > 0 {
		s.tell("the archive has of %s %.300q too much, or out of order", attempt, got)
	}
}
