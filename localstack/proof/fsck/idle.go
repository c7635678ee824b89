package fsck

import (
	"context"
	"encoding/json"

	"millrace/events"
	"millrace/shared/platform/table"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
)

// CheckIdle returns what is left to do in a store in which all work should be
// done: every run is completely processed, no lease is held, nothing of a run
// is due, the queues are idle as in [Snapshot.CheckQueues], and every log can
// be read to its end.
func (s *Snapshot) CheckIdle(ctx context.Context) []string {
	for _, run := range s.Runs() {
		c := subject{s, run}
		if !run.Status.RunEnded() || !run.Archived {
			c.tell("it is not over, archived %t, due %s", run.Archived, run.DueSK)
			continue
		}
		if len(run.Log) > 0 {
			c.tell("%d batches of its log are left", len(run.Log))
		}
		for n, item := range run.Nodes {
			if item.LeaseUntil.Time().After(s.At) && item.StartedAt < run.EndedAt {
				c.tell("its node %d keeps a lease until %s", n, item.LeaseUntil)
			}
		}
		c.log(ctx)
	}
	return append(s.report(), s.CheckQueues()...)
}

// CheckQueues returns the messages that should not exist in a store in which
// all work should be done: all but those of finished runs that are delayed or
// were given up. Messages in flight count: while another worker holds a task's
// lease, its message is not deleted but delivered again.
func (s *Snapshot) CheckQueues() []string {
	for _, m := range s.Messages {
		var body events.Run
		err := json.Unmarshal(m.Body, &body)
		run := s.runs[RunID{body.Org, body.Run}]
		if err != nil || run == nil || !run.Status.RunEnded() || !m.Due.After(s.At) && !m.Dead() {
			s.tell("the queue %s holds %s, due at %s", m.Queue, m.Body, m.Due)
		}
	}
	return s.report()
}

// log reads a run's archive page by page, and compares it with its count.
func (c subject) log(ctx context.Context) {
	if c.objects == nil {
		return
	}
	logs, want := c.logs(), c.items[runstate.ArchiveKey(c.Org, c.ID)]["n"].Int()
	var cursor table.Cursor
	got := int64(0)
	last := map[string]int64{}
	for {
		page, err := logs.Page(ctx, c.Org, c.ID, true, cursor, runlog.MaxLimit)
		if err != nil || page.Source != runlog.Archive {
			c.tell("its log cannot be read: %v, source %q", err, page.Source)
			return
		}
		for _, raw := range page.Events {
			var e runlog.Event
			if err := json.Unmarshal(raw, &e); err != nil {
				c.tell("its log has the event %.200s: %v", raw, err)
				return
			}
			if e.Sequence != 0 && e.Sequence <= last[e.TaskRunID] {
				c.tell("its log has line %d of %s after line %d", e.Sequence, e.TaskRunID, last[e.TaskRunID])
			}
			last[e.TaskRunID] = max(e.Sequence, last[e.TaskRunID])
		}
		got += int64(len(page.Events))
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if got != want {
		c.tell("its log has %d events and counts %d", got, want)
	}
}
