package runs

import (
	"millrace/shared/platform/clock"
	"millrace/shared/run/engine"
	"millrace/shared/run/flowspec"
)

// readyAt returns when a task, or the instances of a map, became ready; 0 if
// they are not.
func (r *reader) readyAt(task int) clock.Millis {
	if r.width[task] > 0 {
		return r.began[task]
	}
	at := r.run.StartedAt
	for _, d := range r.flow.Deps(task) {
		if !r.status[d].Terminal() {
			return 0
		}
		at = max(at, r.ended[d])
	}
	return at
}

// queue sets how long the attempts of a task waited to begin: the first of each
// instance from ready on, each later one from the end of the one before and the
// delay of the retry.
func (r *reader) queue(task *flowspec.Task, attempts []TaskRun, ready clock.Millis) {
	retries := 0
	for i := range attempts {
		t := &attempts[i]
		from := ready
		if t.Attempt == 1 {
			retries = 0
		} else if i > 0 && attempts[i-1].end != 0 {
			before := &attempts[i-1]
			if from = before.end; !before.lost {
				retries++
				from += clock.Millis(task.RetryDelay(retries).Milliseconds())
			}
		}
		until := t.begin
		if until == 0 && t.Status == string(engine.Queued) {
			until = clock.ToMillis(r.s.clock.Now())
		}
		if from != 0 && until != 0 {
			t.QueuedMS = ptr(max(int64(until-from), 0))
		}
	}
}
