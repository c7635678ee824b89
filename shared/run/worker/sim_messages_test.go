package worker_test

import (
	"time"

	"millrace/events"
	"millrace/shared/platform/queue"
	"millrace/shared/run/runstate"
)

// checkMessages checks that a run in which nothing fails sends a message for
// each task and each of its tries, and whenever a map finds no quota.
func (s *sim) checkMessages(r *simRun, want verdict, nodes map[string]*runstate.Node) {
	tries := len(want.nodes) + s.deferred[r.id]
	for key, n := range s.tries {
		if key.run == r.id {
			tries += n
		}
	}
	const hop = int(queue.MaxDelay / time.Second) // a longer delay takes several messages
	for i := range s.flow.tasks {
		t := &s.flow.tasks[i]
		if t.wait > 0 {
			tries += 1 + t.wait/hop
		}
		tries += t.retries * max(1, t.widths[r.gen]) * (t.delay / hop)
		if item := nodes[t.name]; item != nil && t.mapped() {
			tries += s.roomless(r, t.name, item.Deferred)
		}
	}
	if n := s.sent.nodes[r.id]; !s.disturbed && s.places == 0 && n > 2*tries {
		s.tell("run %s sent %d messages for %d tasks and tries", r.id, n, tries)
	}
}

// roomless checks how often a map was released for lack of quota against the
// time that its run took: it waits longer each time, up to a minute.
func (s *sim) roomless(r *simRun, name string, times int) int {
	waits := time.Duration(0)
	for n := range times - 1 { // the last may have been shortened by the end of the run
		waits += min(time.Second<<min(n, 10), time.Minute)
	}
	if took := r.archived.Sub(r.began); waits > took && !s.disturbed {
		s.tell("%s of run %s was given back %d times in %s", name, r.id, times, took)
	}
	return times
}

// checkDead checks that no message became a dead letter, if nothing failed.
func (s *sim) checkDead() {
	for _, name := range []string{events.Tasks("nano"), events.Runs} {
		stats, err := s.queues.Stats(s.ctx, queue.Dead(name))
		if err != nil || stats.Visible > 0 && !s.disturbed {
			s.tell("%d messages of queue %s were given up (%v)", stats.Visible, name, err)
		}
	}
}
