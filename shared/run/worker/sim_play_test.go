package worker_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/localstack/proof/faults"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

// Times of a simulation.
const (
	simCalm  = 3 * time.Hour    // when the faults end at the latest
	simLimit = 6 * time.Hour    // when every run must have ended that does not wait for others
	simAfter = 10 * time.Minute // for late effects of unfinished work
	simDown  = 2 * time.Minute  // longer than any hang or pause
)

// play plays a history and returns the violation of an invariant, "" if there
// is none.
func play(t *testing.T, h simHistory) (broke string, s *sim) {
	synctest.Test(t, func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, h.seed) // ids and nonces are drawn as well
		s = newSim(t, h)
		for gen := 0; ; gen++ {
			began := time.Now()
			s.breakLater(began)
			s.began = began
			for i, l := range s.lineages {
				s.submit(l, gen)
				if i == 0 && gen < len(s.cancel) {
					s.cancelLater(l, gen, s.cancel[gen])
				}
			}
			s.until(began, func() bool { return s.over(gen) })
			s.quieten(max(simAfter, s.outage()))
			if s.failed() || gen >= len(s.retries) {
				break
			}
		}
		if !s.failed() {
			s.check()
		}
		broke = strings.Join(s.problems, "\n")
		s.windDown()
	})
	return broke, s
}

// windDown lets everything end. Whatever hangs or sleeps would be reported as a
// deadlock, because no time passes in a bubble whose test has returned, and
// hide the violation.
func (s *sim) windDown() {
	for _, p := range s.procs {
		p.end()
	}
	s.end()
	s.plan.Calm()
	s.gate.Open()
	time.Sleep(simDown)
	synctest.Wait()
}

// breakLater starts the outages at their times.
func (s *sim) breakLater(began time.Time) {
	for _, o := range s.outages {
		from := began.Add(o.after)
		s.plan.Break(faults.Outage{Port: o.port, From: from, Until: from.Add(o.For), Rate: o.rate, Hang: o.hang})
	}
}

// outage returns how long the outages of a generation last, and until a process
// has then stored its log: it keeps that in memory as long as the log fails,
// also after the end of the run.
func (s *sim) outage() time.Duration {
	var left time.Duration
	for _, o := range s.outages {
		left = max(left, time.Until(s.began.Add(o.after+o.For))+simSpare)
	}
	return left
}

// quieten continues for a while, and reports changes.
func (s *sim) quieten(d time.Duration) {
	end := time.Now().Add(d)
	s.until(time.Now(), func() bool { return time.Now().After(end) })
}

// until plays one event after the other until done returns true. It is called
// after every few steps.
func (s *sim) until(began time.Time, done func() bool) {
	minute := time.Now().Truncate(time.Minute)
	for step := 0; !s.failed(); step++ {
		synctest.Wait()
		s.steps++
		s.observe()
		s.checkMemory()
		if step%8 == 0 && done() {
			return
		}
		now := time.Now()
		if after := cmp.Or(s.calmAfter, simCalm); now.Sub(began) > after {
			s.calm()
		}
		if now.Sub(began) > s.patience() {
			s.stuck()
			return
		}
		s.bury()
		if s.gone > 0 && !s.removed && now.Sub(s.began) >= s.gone {
			s.remove()
		}
		if now.Sub(minute) >= time.Minute && !s.noTicks {
			minute = now.Truncate(time.Minute)
			s.minute()
		}
		s.step()
	}
}

// calm ends the faults. A process that is paused every other minute would never
// finish a task that takes longer.
func (s *sim) calm() {
	s.plan.Calm()
	s.pauses = false
}

// minute ticks like the scheduler.
func (s *sim) minute() {
	if s.rng.IntN(4) == 0 {
		_, _ = s.store.Sweep(s.ctx)
	}
	if p := s.alive(); p != nil {
		go func() {
			ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
			defer cancel()
			payload, _ := json.Marshal(events.SchedulerTick{EventType: events.TickType})
			_, _ = p.tick(ctx, payload)
		}()
	}
}

// step executes a request, hands out messages, or lets time pass.
func (s *sim) step() {
	requests := s.gate.Waiting(s.may)
	waiting := len(requests)
	pass := func() {
		i := s.rng.IntN(waiting)
		fmt.Fprintln(s.trace, time.Now().UnixNano(), requests[i])
		s.asked(requests[i])
		s.gate.Pass(i, s.may)
	}
	if s.pauses && s.rng.IntN(400) == 0 {
		s.pause()
		return
	}
	slow := 200 * time.Millisecond // the largest difference between the durations of two requests
	if !s.disturbed {
		slow = 5 * time.Millisecond
	}
	switch draw := s.rng.IntN(20); {
	case waiting > 0 && draw < 14:
		pass()
	case draw < 19 && s.receive():
	case waiting > 0 && draw < 19:
		pass()
	case waiting > 0:
		time.Sleep(time.Duration(s.rng.Int64N(int64(slow))))
	case !s.disturbed && s.receive():
	default:
		idle := time.NewTimer(time.Duration(1 + s.rng.Int64N(int64(simPoll))))
		defer idle.Stop()
		select {
		case <-s.gate.Arrived():
		case <-idle.C:
		}
	}
}

// stuck reports runs that did not end.
func (s *sim) stuck() {
	for _, r := range s.runs() {
		id := r.id
		run, err := runstate.GetRun(s.ctx, s.store, r.org, id, time.Now())
		if err == nil && run.Status.RunEnded() && run.Archived {
			continue
		}
		s.tell("run %s (%s, archived %t, %v) did not end", id, run.Status, run.Archived, err)
		for name, item := range s.nodes(&run) {
			s.tell("  %s: %+v", name, *item)
		}
	}
	if len(s.runs()) == 0 {
		s.tell("no run was accepted")
	}
}

// final reads the statuses of a run's nodes that ended.
func (s *sim) final(run *runstate.Run) map[string]engine.Status {
	out := map[string]engine.Status{}
	for name, item := range s.nodes(run) {
		if item.Status != "" {
			out[name] = item.Status
		}
	}
	return out
}
