package worker_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

// simView is a reader's view of a run that has ended: its record, and its nodes
// by task name.
type simView struct {
	record string
	nodes  map[string]string
}

// observe compares readers' views of the runs that have ended with the first
// view of each. It reads only runs that were written to since.
func (s *sim) observe() {
	for _, r := range s.dirty() {
		run, err := runstate.GetRun(s.ctx, s.store, r.org, r.id, time.Now())
		if err != nil {
			s.tell("%v", err)
			return
		}
		now := s.view(&run)
		first, seen := s.views[r.id]
		if !seen {
			s.views[r.id] = now
			continue
		}
		if first.record != now.record {
			s.tell("run %s was over as %s, and now reads %s", r.id, first.record, now.record)
		}
		for _, name := range slices.Sorted(maps.Keys(now.nodes)) {
			if before := first.nodes[name]; before != now.nodes[name] && (before != "" || now.nodes[name] != string(engine.Cancelled)) {
				s.tell("run %s was over as %s with %s as %q, which now reads %q", r.id, first.record, name, before, now.nodes[name])
			}
		}
	}
}

// dirty returns the runs that were written to after their end, including the
// end itself.
func (s *sim) dirty() []*simRun {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	var out []*simRun
	for _, r := range s.store.runs {
		if r.dirty {
			r.dirty = false
			out = append(out, r)
		}
	}
	return out
}

// view returns a reader's view of a run. A task that had not ended before a run
// was stopped reads as cancelled.
func (s *sim) view(run *runstate.Run) simView {
	v := simView{
		record: fmt.Sprint(run.Status, " ", run.StartedAt, " to ", run.EndedAt, " ", run.Error),
		nodes:  map[string]string{},
	}
	for name, item := range s.nodes(run) {
		if !item.Status.Terminal() || item.Status == engine.Cancelled {
			v.nodes[name] = string(engine.Cancelled)
			continue
		}
		width := -1
		if item.Width != nil {
			width = *item.Width
		}
		v.nodes[name] = fmt.Sprint(item.Status, " attempt ", item.Attempt, " until ", item.EndedAt, " ", item.Error, " ", item.OutputRef, item.Output, " ", width)
	}
	return v
}
