package conductor_test

import (
	"time"

	"millrace/events"
	"millrace/shared/engine"
	"millrace/shared/queue"
	"millrace/shared/runstate"
)

// The times that a run may take beyond those of its tasks.
const (
	simPoll  = 5 * time.Second // until a message that was delayed is found
	simSpare = time.Minute     // if nothing fails
	simMend  = 5 * time.Minute // after the last fault, until what was lost is made up for
)

// lengths are how long a run takes at least that ends as v says: its critical
// path, and the work of all its tasks one after the other.
func (f *simFlow) lengths(gen int, v verdict) (path, work time.Duration) {
	finish := make([]time.Duration, len(f.tasks))
	for i := range f.tasks {
		t := &f.tasks[i]
		for _, d := range t.deps {
			finish[i] = max(finish[i], finish[d])
		}
		longest := time.Duration(0)
		add := func(name string, index int) {
			switch v.nodes[name] {
			case engine.Succeeded, engine.Failed, engine.TimedOut:
				took, busy := t.length(gen, index)
				longest, work = max(longest, took), work+busy
			}
		}
		if !t.mapped() {
			add(t.name, 0)
		}
		for k := 0; t.mapped() && v.nodes[instance(t, k)] != ""; k++ {
			add(instance(t, k), k)
		}
		finish[i] += longest
		path = max(path, finish[i])
	}
	if f.onFailure != nil && v.nodes[f.onFailure.name] != "" {
		took, busy := f.onFailure.length(gen, 0)
		path, work = path+took, work+busy
	}
	return path, work
}

// length is how long a task or an instance takes with all its tries, and how much
// of that it holds a worker.
func (t *simTask) length(gen, index int) (took, busy time.Duration) {
	if t.wait > 0 {
		return time.Duration(t.wait)*time.Second + simPoll, 0
	}
	for try := 1; ; try++ {
		a := t.act(gen, index, try)
		switch a {
		case actSlow:
			busy += t.slow()
		case actHang: // the worker waits a little longer than the task
			busy += time.Duration(t.timeout+3) * time.Second
		}
		if a == actSucceed || a == actSlow || a == actFinal || try > t.retries {
			return took + busy, busy
		}
		took += t.retryDelay(try) + simPoll
	}
}

// slow is how long a try takes that is slow.
func (t *simTask) slow() time.Duration { return time.Duration(t.timeout-1) * time.Second }

// limit is the time at which a run must be over: after its critical path, if it
// has workers enough, and a minute. From the last fault on it has as long again,
// and the time to make up for what was lost.
func (s *sim) limit(r *simRun, v verdict) time.Time {
	path, work := s.flow.lengths(r.gen, v)
	runs := time.Duration(len(s.lineages))
	length := path + runs*work/time.Duration(s.processes*s.slots) + simSpare
	if r.fault.Before(r.began) {
		return r.began.Add(length)
	}
	return r.fault.Add(length + simMend)
}

// checkTime: a run takes no longer than its tasks, and faults no longer than it
// takes to make up for them.
func (s *sim) checkTime(r *simRun, run *runstate.Run, want verdict) {
	took := r.archived.Sub(r.began)
	s.took = max(s.took, took)
	if limit := s.limit(r, want); r.archived.After(limit) {
		s.tell("run %s (%d) was over after %s, %s later than it might (%s)", r.id, r.gen, took, r.archived.Sub(limit), run.Status)
	}
}

// checkMessages: a run in which nothing fails sends a message for each task and
// each of its tries, and no message is given up.
func (s *sim) checkMessages(r *simRun, nodes int) {
	tries := nodes
	for key, n := range s.tries {
		if key.run == r.id {
			tries += n
		}
	}
	if n := s.sent.nodes[r.id]; !s.disturbed && n > 2*tries {
		s.tell("run %s sent %d messages for %d tasks and tries", r.id, n, tries)
	}
}

// checkDead: no message was given up, if nothing failed.
func (s *sim) checkDead() {
	for _, name := range []string{events.Tasks("nano"), events.Runs} {
		stats, err := s.queues.Stats(s.ctx, queue.Dead(name))
		if err != nil || stats.Visible > 0 && !s.disturbed {
			s.tell("%d messages of queue %s were given up (%v)", stats.Visible, name, err)
		}
	}
}
