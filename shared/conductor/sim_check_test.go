package conductor_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"millrace/shared/audit"
	"millrace/shared/conductor"
	"millrace/shared/engine"
	"millrace/shared/runstate"
	"millrace/shared/table"
)

// check holds what is left of a history to the invariants.
func (s *sim) check() {
	first := s.of(0)
	if len(first) != 1 || first[0] != s.accepted[0] {
		s.tell("one idempotency key made the runs %v, %s was answered", first, s.accepted[0])
		return
	}
	src := s.checkRun(first[0], 0, nil)
	for _, id := range s.of(1) {
		s.checkRun(id, 1, src)
	}
	s.checkDue()
	s.checkAudit()
}

// checkRun checks one run and returns it as a source of retries.
func (s *sim) checkRun(id string, gen int, src *source) *source {
	run, err := runstate.GetRun(s.ctx, s.store, org, id)
	if err != nil {
		s.tell("%v", err)
		return nil
	}
	if s.stopped[id] && run.Status != engine.Cancelled {
		s.tell("run %s was cancelled, and is %s", id, run.Status)
	}
	nodes, final := s.nodes(&run), s.final(&run)
	lost := false
	for name, item := range nodes {
		// A claim may come after a stopped run's end: it begins nothing, and may
		// be left if its answer was lost.
		if item.LeaseUntil != 0 && (run.Fence == "" || item.LeaseUntil.Time().After(time.Now())) {
			s.tell("%s of run %s, which is %s, keeps a lease until %s", name, id, run.Status, item.LeaseUntil)
		}
		lost = lost || item.Lost >= conductor.MaxLost
	}
	want, next := s.flow.judge(gen, src)
	stopped := run.Fence != "" || run.Deadline != 0 && run.EndedAt >= run.Deadline
	if !stopped && !lost {
		if run.Status != want.run {
			s.tell("run %s (%d) ended %s, by the rules %s", id, gen, run.Status, want.run)
		}
		for _, name := range slices.Sorted(maps.Keys(final)) {
			if want.nodes[name] != final[name] {
				s.tell("%s of run %s (%d) ended %s, by the rules %q", name, id, gen, final[name], want.nodes[name])
			}
		}
		for _, name := range slices.Sorted(maps.Keys(want.nodes)) {
			if final[name] == "" {
				s.tell("%s of run %s (%d) did not end, by the rules %s", name, id, gen, want.nodes[name])
			}
		}
	} else if run.Status == engine.Succeeded && stopped && run.Fence != "" {
		s.tell("run %s was stopped and is %s", id, run.Status)
	}
	s.checkReuse(&run, nodes)
	s.checkLists(&run, nodes)
	// What a stopped run left is judged by what it left.
	next.nodes, next.width = final, map[int]int{}
	for i := range s.flow.tasks {
		if item := nodes[s.flow.tasks[i].name]; item != nil && item.Width != nil {
			next.width[i] = *item.Width
		}
	}
	return next
}

// checkReuse: what is reused hands on what the source has, and did not run.
func (s *sim) checkReuse(run *runstate.Run, nodes map[string]*runstate.Node) {
	if run.Parent == "" {
		return
	}
	parent, err := runstate.GetRun(s.ctx, s.store, org, run.Parent)
	if err != nil {
		s.tell("%v", err)
		return
	}
	of := s.nodes(&parent)
	for name, item := range nodes {
		if item.Status != engine.Reused {
			continue
		}
		if s.executed[runstate.TaskRunID(run.ID, item.Number(), 1)] > 0 {
			s.tell("%s of run %s is reused, and ran", name, run.ID)
		}
		if got, want := s.stored(item), s.stored(of[name]); got != want {
			s.tell("%s of run %s is reused and hands on %.200s, the source %.200s", name, run.ID, got, want)
		}
	}
}

// checkLists: a map hands on its instances' outputs in order, null for those
// that failed.
func (s *sim) checkLists(run *runstate.Run, nodes map[string]*runstate.Node) {
	for i := range s.flow.tasks {
		t := &s.flow.tasks[i]
		item := nodes[t.name]
		if item == nil || item.Width == nil || !item.Status.Terminal() || item.Status == engine.Reused || item.Status == engine.Cancelled || s.stored(item) == "null" {
			continue
		}
		var list []json.RawMessage
		if err := json.Unmarshal([]byte(s.stored(item)), &list); err != nil || len(list) != *item.Width {
			s.tell("%s of run %s hands on %.200s (%v), its width is %d", t.name, run.ID, s.stored(item), err, *item.Width)
			continue
		}
		for k, got := range list {
			want := "null"
			if part := nodes[instance(t, k)]; part != nil && (part.Status == engine.Succeeded || part.Status == engine.Reused) {
				want = s.stored(part)
			}
			if string(got) != want {
				s.tell("%s of run %s hands on %.100s as element %d, which stored %.100s", t.name, run.ID, got, k, want)
			}
		}
	}
}

// checkDue: nothing is due any more.
func (s *sim) checkDue() {
	for shard := range runstate.DueShards {
		for item, err := range table.All(s.ctx, s.store, table.Query{Index: table.Due, PK: runstate.DuePartition(shard)}) {
			s.tell("due entry left: %v %v", item, err)
		}
	}
}

// checkAudit: every run has one entry of its making, and one of its cancel if it
// was cancelled; a key that was sent often made one.
func (s *sim) checkAudit() {
	entries := map[string]int{}
	for item, err := range table.All(s.ctx, s.store, table.Query{PK: audit.Partition(org)}) {
		if err != nil {
			s.tell("%v", err)
			return
		}
		var r audit.Record
		if err := table.Unmarshal(item, &r); err != nil {
			s.tell("%v", err)
		}
		if r.ResourceType == "run" {
			entries[r.Action+" "+r.ResourceID]++
		}
	}
	want := map[string]int{}
	for _, id := range s.ids() {
		run, err := runstate.GetRun(s.ctx, s.store, org, id)
		if err != nil {
			s.tell("%v", err)
			continue
		}
		made := "create "
		if run.Parent != "" {
			made = "retry "
		}
		want[made+id] = 1
		if run.Fence == runstate.FenceCancel {
			want["cancel "+id] = 1
		}
	}
	if !maps.Equal(entries, want) {
		s.tell("audit entries are %s, want %s", fmt.Sprint(entries), fmt.Sprint(want))
	}
}
