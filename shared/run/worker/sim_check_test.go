package worker_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"millrace/shared/account/audit"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
	"millrace/shared/run/worker"
)

// check checks the invariants of the final state of a history.
func (s *sim) check() {
	runs := s.runs()
	first := map[string]bool{}
	for _, l := range s.lineages {
		first[l.accepted] = true
	}
	roots := 0
	for _, r := range runs {
		if r.gen == 0 {
			roots++
		}
		if r.gen == 0 && !first[r.id] {
			s.tell("run %s was accepted, and not answered", r.id)
		}
	}
	if roots != len(s.lineages) || len(first) != roots {
		s.tell("%d runs were accepted for %d idempotency keys", roots, len(s.lineages))
		return
	}
	for _, l := range s.lineages {
		src := s.checkRun(s.store.byID[l.accepted], nil)
		for _, r := range s.retriesOf(l.accepted) {
			src = s.checkRetries(r, src)
		}
	}
	s.checkDue()
	s.checkDead()
	for _, l := range s.lineages {
		s.checkAudit(l.org)
	}
}

// checkRetries checks the retries of a run. A lost response may have caused
// several, of which the first is retried.
func (s *sim) checkRetries(runs []*simRun, src *source) *source {
	var next *source
	for i, r := range runs {
		from := src
		if !s.retries[r.gen-1] {
			from = nil
		}
		if got := s.checkRun(r, from); i == 0 {
			next = got
		}
	}
	return next
}

// checkRun checks one run and returns it as a source of retries.
func (s *sim) checkRun(r *simRun, src *source) *source {
	id, gen := r.id, r.gen
	run, err := runstate.GetRun(s.ctx, s.store, r.org, id, time.Now())
	if err != nil {
		s.tell("%v", err)
		return nil
	}
	if s.stopped[id] && run.Status != engine.Cancelled {
		s.tell("run %s was cancelled, and is %s", id, run.Status)
	}
	nodes, final := s.nodes(&run), s.final(&run)
	lost := s.gone > 0 // the run's end then depends on what it had read
	for name, item := range nodes {
		// A claim may come after a stopped run's end: it begins nothing, and may
		// remain if its response was lost.
		if item.LeaseUntil != 0 && (run.Fence == "" || item.LeaseUntil.Time().After(time.Now())) {
			s.tell("%s of run %s, which is %s, keeps a lease until %s", name, id, run.Status, item.LeaseUntil)
		}
		if item.Lost >= worker.MaxLost && !s.meant(name, gen) {
			lost = true // by chance: it ended otherwise than drawn
		}
		s.checkTries(&run, name, item)
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
	if lost { // and other tasks were executed because of it
		want.nodes = final
	}
	s.checkTime(r, &run, want)
	s.checkMessages(r, want, nodes)
	s.checkReuse(&run, nodes)
	if s.gone == 0 {
		s.checkLists(&run, nodes)
	}
	s.checkLines(r)
	// The retry of a stopped run is judged by the nodes that had finished.
	next.nodes, next.width = final, map[int]int{}
	for i := range s.flow.tasks {
		if item := nodes[s.flow.tasks[i].name]; item != nil && item.Width != nil {
			next.width[i] = *item.Width
		}
	}
	return next
}

// meant reports whether a task was drawn to lose the maximum number of leases.
func (s *sim) meant(name string, gen int) bool {
	for i := range s.flow.tasks {
		t := &s.flow.tasks[i]
		if (name == t.name && !t.mapped() || name == instance(t, 0)) && t.killed(gen, 0) >= worker.MaxLost {
			return true
		}
	}
	return false
}

// checkReuse checks that a reused task has the source's output, and did not
// run.
func (s *sim) checkReuse(run *runstate.Run, nodes map[string]*runstate.Node) {
	if run.Parent == "" {
		return
	}
	parent, err := runstate.GetRun(s.ctx, s.store, run.Org, run.Parent, time.Now())
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

// checkLists checks that a map's output is its instances' outputs in order,
// null for those that failed.
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

// checkDue checks that nothing is due any more.
func (s *sim) checkDue() {
	for shard := range runstate.DueShards {
		for item, err := range table.All(s.ctx, s.store, table.Query{Index: table.Due, PK: runstate.DuePartition(shard)}) {
			s.tell("due entry left: %v %v", item, err)
		}
	}
}

// checkAudit checks that every run has one audit entry of its creation, and one
// of its cancel if it was cancelled, and that a key that was sent several times
// made one run.
func (s *sim) checkAudit(org string) {
	entries := map[string]int{}
	for r, err := range audit.Entries(s.ctx, s.store, org, time.Time{}, time.Time{}) {
		if err != nil {
			s.tell("%v", err)
			return
		}
		if r.ResourceType == "run" {
			entries[r.Action+" "+r.ResourceID]++
		}
	}
	want := map[string]int{}
	for _, r := range s.runs() {
		if r.org != org {
			continue
		}
		id := r.id
		run, err := runstate.GetRun(s.ctx, s.store, org, id, time.Now())
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
