package conductor_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/shared/engine"
	"millrace/shared/errs"
	"millrace/shared/launch"
	"millrace/shared/runstate"
)

// The times of a simulation.
const (
	simCalm  = 3 * time.Hour    // then the faults end
	simLimit = 6 * time.Hour    // by then every run is over
	simAfter = 10 * time.Minute // what is still under way may do its harm
)

// play plays a history and returns what broke, "" if nothing did.
func play(t *testing.T, h simHistory) (broke string, s *sim) {
	synctest.Test(t, func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, h.seed) // ids and nonces are drawn like the rest
		s = newSim(t, h)
		began := time.Now()
		s.accept()
		for gen := 0; ; gen++ {
			if gen < len(s.cancel) {
				s.cancelLater(gen, s.cancel[gen])
			}
			s.until(began, func() bool { return s.over(gen) })
			s.took = max(s.took, time.Since(began))
			s.quieten(simAfter)
			if s.failed() || gen > 0 || !s.retry {
				break
			}
			s.client(func(p *proc) error {
				_, err := p.launch.Retry(s.ctx, org, s.accepted[0], true)
				return err
			})
			began = time.Now()
		}
		if !s.failed() {
			s.check()
		}
		broke = strings.Join(s.problems, "\n")
		for _, p := range s.procs {
			p.end()
		}
		s.gate.Open()
		synctest.Wait()
	})
	return broke, s
}

// accept has a run accepted, with an idempotency key, so that the client may ask
// again as long as it gets no answer.
func (s *sim) accept() {
	s.client(func(p *proc) error {
		run, err := p.launch.Accept(s.ctx, org, launch.Request{Flow: "f", Version: "1", Trigger: launch.Manual, Key: "key", Fingerprint: "request"})
		if err == nil {
			s.mu.Lock()
			s.accepted[0] = run.ID
			s.mu.Unlock()
		}
		return err
	})
}

// cancelLater cancels the runs of a generation some time after the first of
// them was accepted.
func (s *sim) cancelLater(gen int, after time.Duration) {
	s.client(func(p *proc) error {
		ids := s.of(gen)
		if len(ids) == 0 {
			return errors.New("none yet")
		}
		time.Sleep(after)
		run, err := p.launch.Cancel(s.ctx, org, ids[0])
		after = 0
		switch {
		case err == nil:
			s.mu.Lock()
			s.stopped[run.ID] = true
			s.mu.Unlock()
		case errs.CodeOf(err) == errs.Invalid:
			return nil // it has ended
		}
		return err
	})
}

// of lists the runs of a generation.
func (s *sim) of(gen int) []string {
	var out []string
	for _, id := range s.ids() {
		if run, err := runstate.GetRun(s.ctx, s.store, org, id); err == nil && s.generation(&run) == gen {
			out = append(out, id)
		}
	}
	return out
}

// over reports whether a generation has come to its end.
func (s *sim) over(gen int) bool {
	ids := s.of(gen)
	s.mu.Lock()
	busy := s.busy
	s.mu.Unlock()
	for _, id := range ids {
		run, err := runstate.GetRun(s.ctx, s.store, org, id)
		if err != nil || !run.Status.RunEnded() || !run.Archived {
			return false
		}
	}
	return len(ids) > 0 && busy == 0
}

// quieten goes on for a while, and tells if anything still changes.
func (s *sim) quieten(d time.Duration) {
	end := time.Now().Add(d)
	s.until(time.Now(), func() bool { return time.Now().After(end) })
}

// until lets one thing after the other happen until done. It is asked after
// every few steps.
func (s *sim) until(began time.Time, done func() bool) {
	minute := time.Now().Truncate(time.Minute)
	for step := 0; !s.failed(); step++ {
		synctest.Wait()
		s.steps++
		if step%8 == 0 && done() {
			return
		}
		now := time.Now()
		if now.Sub(began) > simCalm {
			s.plan.Calm()
		}
		if now.Sub(began) > simLimit {
			s.stuck()
			return
		}
		s.bury()
		if now.Sub(minute) >= time.Minute {
			minute = now.Truncate(time.Minute)
			s.minute()
		}
		s.step()
	}
}

// minute is a tick of the scheduler.
func (s *sim) minute() {
	if s.rng.IntN(4) == 0 {
		_, _ = s.store.Sweep(s.ctx)
	}
	if p := s.alive(); p != nil {
		go func() {
			payload, _ := json.Marshal(events.SchedulerTick{EventType: events.TickType})
			_, _ = p.tick(p.ctx, payload)
		}()
	}
}

// step lets a request pass, hands out messages, or lets time go by.
func (s *sim) step() {
	requests := s.gate.Waiting(s.may)
	waiting := len(requests)
	pass := func() {
		i := s.rng.IntN(waiting)
		fmt.Fprintln(s.trace, time.Now().UnixNano(), requests[i])
		s.gate.Pass(i, s.may)
	}
	if s.pauses && s.rng.IntN(400) == 0 {
		s.procs[s.rng.IntN(len(s.procs))].paused = time.Now().Add(time.Duration(s.rng.Int64N(int64(2 * time.Minute))))
		return
	}
	switch draw := s.rng.IntN(20); {
	case waiting > 0 && draw < 14:
		pass()
	case draw < 19 && s.receive():
	case waiting > 0 && draw < 19:
		pass()
	case waiting > 0:
		time.Sleep(time.Duration(s.rng.Int64N(int64(200 * time.Millisecond))))
	default:
		idle := time.NewTimer(time.Duration(1 + s.rng.Int64N(int64(5*time.Second))))
		defer idle.Stop()
		select {
		case <-s.gate.Arrived():
		case <-idle.C:
		}
	}
}

// stuck tells of runs that did not end.
func (s *sim) stuck() {
	for _, id := range s.ids() {
		run, err := runstate.GetRun(s.ctx, s.store, org, id)
		if err == nil && run.Status.RunEnded() && run.Archived {
			continue
		}
		s.tell("run %s (%s, archived %t, %v) did not end", id, run.Status, run.Archived, err)
		for name, item := range s.nodes(&run) {
			s.tell("  %s: %+v", name, *item)
		}
	}
	if len(s.ids()) == 0 {
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
