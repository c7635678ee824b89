package worker_test

import (
	"errors"
	"slices"
	"time"

	"millrace/localstack/proof/fixture"
	"millrace/shared/platform/errs"
	"millrace/shared/run/launch"
)

// client makes requests of a process until one gets a response. After each one
// without, another process is asked.
func (s *sim) client(do func(p *proc) error) {
	s.mu.Lock()
	s.busy++
	s.mu.Unlock()
	go func() {
		defer func() {
			s.mu.Lock()
			s.busy--
			s.mu.Unlock()
		}()
		for n := 0; s.ctx.Err() == nil; n++ {
			s.mu.Lock()
			p := s.procs[n%len(s.procs)]
			s.mu.Unlock()
			if do(p) == nil {
				return
			}
			time.Sleep(time.Second)
		}
	}()
}

// submit requests a run, or a retry of the last generation, with an idempotency
// key, so that the client may repeat the request until it gets a response.
func (s *sim) submit(l *lineage, gen int) {
	ctx := fixture.Owner(s.ctx, l.org)
	if gen > 0 {
		source := l.accepted
		for _, retries := range s.retriesOf(l.accepted) {
			source = retries[0].id
		}
		s.client(func(p *proc) error {
			_, err := p.launch.Retry(ctx, l.org, source, s.retries[gen-1])
			return err
		})
		return
	}
	request := launch.Request{
		Flow: "f", Version: "1", Trigger: launch.Manual, Parameters: s.parameters(), Key: l.key, Fingerprint: "request",
	}
	accept := func(p *proc) error {
		run, err := p.launch.Accept(ctx, l.org, request)
		if err != nil {
			return err
		}
		s.mu.Lock()
		other := l.accepted
		l.accepted = run.ID
		s.mu.Unlock()
		if other != "" && other != run.ID {
			s.tell("one idempotency key was answered with the runs %s and %s", other, run.ID)
		}
		return nil
	}
	s.client(accept)
	if s.twice {
		s.client(accept)
	}
}

// cancelLater cancels a run of a generation some time after it was accepted.
func (s *sim) cancelLater(l *lineage, gen int, after time.Duration) {
	ctx := fixture.Owner(s.ctx, l.org)
	s.client(func(p *proc) error {
		id := s.first(l, gen)
		if id == "" {
			return errors.New("none yet")
		}
		time.Sleep(after)
		run, err := p.launch.Cancel(ctx, l.org, id)
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

// runs returns all runs.
func (s *sim) runs() []*simRun {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return slices.Clone(s.store.runs)
}

// first returns the first run of a lineage in a generation, "" if there is none
// yet.
func (s *sim) first(l *lineage, gen int) string {
	s.mu.Lock()
	id := l.accepted
	s.mu.Unlock()
	if gen == 0 {
		return id
	}
	if retries := s.retriesOf(id); len(retries) >= gen {
		return retries[gen-1][0].id
	}
	return ""
}

// retriesOf returns the retries of a run, those of its first retry, and so on.
func (s *sim) retriesOf(id string) (out [][]*simRun) {
	runs := s.runs()
	for {
		var next []*simRun
		for _, r := range runs {
			if r.parent == id {
				next = append(next, r)
			}
		}
		if len(next) == 0 {
			return out
		}
		out = append(out, next)
		id = next[0].id
	}
}

// over reports whether all runs of a generation have ended.
func (s *sim) over(gen int) bool {
	s.mu.Lock()
	busy := s.busy
	s.mu.Unlock()
	if busy > 0 {
		return false
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	some := false
	for _, r := range s.store.runs {
		some = some || r.gen == gen
		if !r.ended || r.archived.IsZero() {
			return false
		}
	}
	return some
}
