package worker_test

import (
	"fmt"
	"strings"
	"time"

	"millrace/localstack/proof/faults"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runstate"
	"millrace/shared/run/worker"
)

// execution is a current or former execution of an attempt.
type execution struct {
	p       *proc
	attempt int
	over    bool
	next    time.Time // when another attempt began before this one was over
}

// begin records that an attempt executes in a process. The returned function
// ends it. The attempt before must be over, or its process dead.
func (s *sim) begin(p *proc, a *executor.Attempt, node engine.Node) (end func()) {
	key, now := simNode{a.RunID, node}, time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries[key]++
	s.told.note(now, fmt.Sprintf("%s begins %s (%s)", p.name, number(a.RunID, node, a.Number), a.Task.Name))
	if before := s.under[key]; before != nil && !before.over && !before.p.dead() {
		before.next = now
		s.overlaps(key, before, now)
	}
	e := &execution{p: p, attempt: a.Number}
	s.under[key] = e
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		e.over = true
		s.told.note(time.Now(), fmt.Sprintf("%s ends %s", p.name, number(a.RunID, node, a.Number)))
		if !e.next.IsZero() && !p.dead() {
			s.overlaps(key, e, time.Now())
		}
	}
}

// overlaps reports an attempt that continues during the next one for longer
// than the clocks of the two processes differ. The caller holds mu.
func (s *sim) overlaps(key simNode, e *execution, now time.Time) {
	if s.mostSkew() > 0 && now.Sub(e.next) <= s.mostSkew() {
		return
	}
	s.problems = append(s.problems, fmt.Sprintf("attempt %d of node %d of run %s goes on in %s at %s, since %s beside the next one",
		e.attempt, key.node, key.run, e.p.name, now.Format(time.TimeOnly), e.next.Format(time.TimeOnly)))
}

// lost checks that there is a cause for a lost lease: its process is dead, was
// paused, or its requests about the lease failed again and again until it
// expired.
func (s *sim) lost(k table.Key, before table.Item) {
	name, _, _ := strings.Cut(before[runstate.NodeNonce].Str(), ".")
	until := time.UnixMilli(before[runstate.NodeLease].Int())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told.note(time.Now(), fmt.Sprintf("%s lost its lease on %v", name, k.SK))
	p := s.named[name]
	if p == nil || p.excused(k.SK, until, s.mostSkew()) || s.out(until) {
		return
	}
	s.problems = append(s.problems, fmt.Sprintf("%s lost its lease on node %s at %s, and it lives and could have kept it", name, k.SK, until.Format(time.TimeOnly)))
}

// out reports whether the table was out for the second half of a lease until a
// time.
func (s *sim) out(until time.Time) bool {
	for _, o := range s.outages {
		from := s.began.Add(o.after)
		if o.port == faults.Tables && o.rate > .5 && !from.After(until.Add(-worker.Lease/2)) && !from.Add(o.For).Before(until) {
			return true
		}
	}
	return false
}

// excused reports whether a process may have lost a lease until a time.
func (p *proc) excused(node string, until time.Time, skew time.Duration) bool {
	if p.dead() {
		return true
	}
	// The process may know of an earlier end only, if the response to the last
	// renewal was lost.
	from := until.Add(-2*worker.Lease - skew)
	until = until.Add(skew)
	within := func(at time.Time) bool { return !at.Before(from) && !at.After(until) }
	for _, at := range p.expired {
		if within(at) {
			return true
		}
	}
	for _, pause := range p.pauses {
		if pause[0].Before(until) && pause[1].After(from) {
			return true
		}
	}
	failed := 0
	for _, f := range p.failures {
		if within(f.at) && f.Port == faults.Tables && (f.Subject == node || f.Subject == "run") {
			if f.hung {
				return true
			}
			failed++
		}
	}
	// A failed heartbeat is repeated while the lease has time for it.
	return failed >= 3 || failed > 0 && skew > 0
}

// checkTries checks that the executions of each task are explained by its tries
// and the leases it lost.
func (s *sim) checkTries(run *runstate.Run, name string, item *runstate.Node) {
	task := s.flow.onFailure
	if name != "cleanup" {
		task = s.taskOf(name)
	}
	n := s.tries[simNode{run.ID, item.Number()}]
	if most := 1 + task.retries + item.Lost; n > most && task.wait == 0 {
		s.tell("%s of run %s was executed %d times, with %d retries and %d lost leases", name, run.ID, n, task.retries, item.Lost)
	}
}

func (s *sim) taskOf(name string) *simTask {
	var index int
	_, _ = fmt.Sscanf(name, "t%d", &index)
	return &s.flow.tasks[index]
}
