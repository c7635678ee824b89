package worker_test

import (
	"maps"
	"time"

	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

// Times that a run may take beyond those of its tasks.
const (
	simPoll  = 5 * time.Second // until a delayed message is received
	simSpare = time.Minute     // if nothing fails
	simMend  = 5 * time.Minute // after the last fault, until losses are repaired
	// simBehind is the same for a message that was lost while others waited. It
	// cannot be known whether it waits behind them: it is sent again after a
	// quarter of an hour, with nine others, and the rest as soon as no message
	// waits any more.
	simBehind = 30 * time.Minute
	simRoom   = time.Minute + simPoll // until a map that waits for quota gets it
)

// lengths returns the minimum duration of a run that ends as v says: its
// critical path, and the work of all its tasks one after the other. If maps
// need quota, each may wait for all maps that may run concurrently.
func (f *simFlow) lengths(gen int, v verdict, room bool) (path, work time.Duration) {
	longest := make([]time.Duration, len(f.tasks)) // by task: of its instances
	for i := range f.tasks {
		t := &f.tasks[i]
		add := func(name string, index int) {
			switch v.nodes[name] {
			case engine.Succeeded, engine.Failed, engine.TimedOut:
				took, busy := t.length(gen, index)
				longest[i], work = max(longest[i], took), work+busy
			}
		}
		if !t.mapped() {
			add(t.name, 0)
		}
		for k := 0; t.mapped() && v.nodes[instance(t, k)] != ""; k++ {
			add(instance(t, k), k)
		}
	}
	finish, before := make([]time.Duration, len(f.tasks)), f.before()
	for i := range f.tasks {
		for _, d := range f.tasks[i].deps {
			finish[i] = max(finish[i], finish[d])
		}
		finish[i] += longest[i]
		for k := range f.tasks {
			beside := k != i && !before[i][k] && !before[k][i]
			if room && beside && v.expanded(&f.tasks[i]) && v.expanded(&f.tasks[k]) {
				finish[i] += longest[k] + simRoom
			}
		}
		path = max(path, finish[i])
	}
	if f.onFailure != nil && v.nodes[f.onFailure.name] != "" {
		took, busy := f.onFailure.length(gen, 0)
		path, work = path+took, work+busy
	}
	return path, work
}

// before returns, by task, its direct and indirect dependencies.
func (f *simFlow) before() []map[int]bool {
	out := make([]map[int]bool, len(f.tasks))
	for i := range f.tasks {
		out[i] = map[int]bool{}
		for _, d := range f.tasks[i].deps {
			out[i][d] = true
			maps.Copy(out[i], out[d])
		}
	}
	return out
}

// expanded reports whether a task is a map that has instances.
func (v verdict) expanded(t *simTask) bool { return t.mapped() && v.nodes[instance(t, 0)] != "" }

// mostWork returns the work of a run of any generation whose tasks are all
// executed.
func (f *simFlow) mostWork() (most time.Duration) {
	for gen := range generations {
		sum := time.Duration(0)
		for i := range f.tasks {
			t := &f.tasks[i]
			for k := range max(1, t.widths[gen]) {
				_, busy := t.length(gen, k)
				sum += busy
			}
		}
		most = max(most, sum)
	}
	return most
}

// mostHeld returns how long the maps of a run of any generation have quota, one
// after the other, including the delays between tries.
func (f *simFlow) mostHeld() (most time.Duration) {
	for gen := range generations {
		sum := time.Duration(0)
		for i := range f.tasks {
			longest := time.Duration(0)
			for k := range f.tasks[i].acts[gen] {
				took, _ := f.tasks[i].length(gen, k)
				longest = max(longest, took)
			}
			if f.tasks[i].mapped() {
				sum += longest + simRoom
			}
		}
		most = max(most, sum)
	}
	return most
}

// length returns how long a task or an instance takes with all its tries, and
// how much of that it occupies a worker.
func (t *simTask) length(gen, index int) (took, busy time.Duration) {
	deferred := time.Duration(0) // before each try
	for n := range t.defers {
		deferred += time.Second<<n + simPoll
	}
	if t.wait > 0 {
		return deferred + time.Duration(t.wait)*time.Second + simPoll, 0
	}
	for try := 1; ; try++ {
		took += deferred
		a := t.act(gen, index, try)
		switch a {
		case actSlow:
			busy += t.slow()
		case actHang: // the worker waits a little longer than the task
			busy += time.Duration(t.timeout+3) * time.Second
		case actStuck: // and abandons it after a while
			busy += time.Duration(t.timeout+20) * time.Second
		}
		if a == actSucceed || a == actSlow || a == actFinal || a == actStuck || try > t.retries {
			return took + busy, busy
		}
		took += t.retryDelay(try) + simPoll
	}
}

// slow returns the duration of a slow try.
func (t *simTask) slow() time.Duration { return time.Duration(t.timeout-1) * time.Second }

// limit returns the time at which a run must have ended: after its critical
// path, if there are enough workers, and a minute. After the last fault it has
// as long again, and the time to repair losses.
func (s *sim) limit(r *simRun, v verdict) time.Time {
	path, work := s.flow.lengths(r.gen, v, s.places == 0)
	beside := time.Duration(s.beside(r))
	others := beside * s.flow.mostWork()
	if s.gone > 0 {
		return r.began.Add(s.gone + time.Duration(s.flow.deadline)*time.Second + simMend)
	}
	length := path + (work+others)/s.workers() + simSpare
	if beside > 0 && s.places == 0 { // its maps may wait for the maps of all other runs, also between tries
		length += others + beside*s.flow.mostHeld() + time.Duration(len(s.flow.tasks))*simMend
	}
	if r.fault.Before(r.began) {
		return r.began.Add(length)
	}
	if beside > 0 && s.rates.Lose > 0 {
		return r.fault.Add(length + simBehind)
	}
	return r.fault.Add(length + simMend)
}

// beside returns how many other runs there may be at the time of a run: those of
// the other lineages, or more if a retry was accepted several times.
func (s *sim) beside(r *simRun) int {
	n := 0
	for _, other := range s.runs() {
		if other != r && other.began.Before(r.archived) && (other.archived.IsZero() || other.archived.After(r.began)) {
			n++
		}
	}
	return max(n, len(s.lineages)-1)
}

// patience returns how long the runs of a generation may take if nothing works
// at all before the faults end.
func (s *sim) patience() time.Duration {
	return simLimit + time.Duration(len(s.lineages))*s.flow.mostWork()/s.workers()
}

// workers returns the number of tasks that are certainly executed at a time, if
// there are so many. If they need slots, one process may have the messages of
// them all.
func (s *sim) workers() time.Duration {
	if s.places > 0 {
		return time.Duration(min(s.places, s.slots))
	}
	return time.Duration(s.processes * s.slots)
}

// checkTime checks that a run takes no longer than its tasks, and that faults
// delay it no longer than their repair takes.
func (s *sim) checkTime(r *simRun, run *runstate.Run, want verdict) {
	took := r.archived.Sub(r.began)
	s.took = max(s.took, took)
	if limit := s.limit(r, want); r.archived.After(limit) {
		path, work := s.flow.lengths(r.gen, want, s.places == 0)
		s.tell("run %s (%d) was over after %s, %s later than it might (%s): the last fault was after %s, its path takes %s and its tasks %s", r.id, r.gen, took, r.archived.Sub(limit), run.Status, r.fault.Sub(r.began), path, work)
	}
}
