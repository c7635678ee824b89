package worker_test

import (
	"cmp"
	"context"
	"sync/atomic"
	"testing/synctest"
	"time"

	"millrace/functions/schedulertick"
	"millrace/localstack/embedded/localbus"
	"millrace/localstack/proof/faults"
	"millrace/shared/account/quota"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/notify"
	"millrace/shared/platform/queue"
	"millrace/shared/run/executor"
	"millrace/shared/run/launch"
	"millrace/shared/run/runlog"
	"millrace/shared/run/worker"
	"millrace/shared/web/fn"
)

// proc is one process with its own view of the world.
type proc struct {
	*faults.Process
	name            string
	ctx             context.Context
	end             context.CancelFunc
	config          worker.Config
	c               *worker.Worker
	launch          *launch.Launcher
	tick            fn.Handler
	queues          queue.Queues
	clock           clock.Clock
	tasks           atomic.Int32 // messages being handled
	reconciliations atomic.Int32

	// Causes of lost leases; under sim.mu.
	paused   time.Time // until
	pauses   [][2]time.Time
	failures []failure   // of the table
	expired  []time.Time // messages that took longer than the process may take
	diedAt   time.Time
	// logFailed means that a write of its log failed, so that lines may be waiting
	// in its memory.
	logFailed bool
	puts      map[string]time.Time // the log batches that it wrote, by id
}

// failure is a failed request of a process.
type failure struct {
	at time.Time
	faults.Request
	hung bool
}

// messageTime is the time limit of a function for its messages.
const messageTime = 15 * time.Minute

// start starts a process with a name of its own.
func (s *sim) start() *proc {
	s.boots++
	p := &proc{name: "boot" + itoa(s.boots), clock: clock.System{}, puts: map[string]time.Time{}}
	if len(s.skew) > 0 {
		d := s.skew[s.boots%len(s.skew)]
		p.clock = clock.Func(func() time.Time { return time.Now().Add(d) })
	}
	p.Process = s.plan.Process(p.name, s.gate)
	p.ctx, p.end = context.WithCancel(s.ctx)
	p.queues = p.Queues(s.sent)
	hub, objects := &notify.Broker{}, p.Objects(s.blob)
	p.config = worker.Config{
		Table: p.Table(), Queues: p.queues, Blob: objects, Bus: p.Bus(localbus.New(p.queues, nil)), Clock: p.clock,
		Log: quiet, Logs: &runlog.Store{Table: p.Logs(), Blob: objects, Clock: p.clock, Log: quiet, Exclusive: s.sole}, Broker: hub,
		ProcessID: p.name, Exclusive: s.sole, LongLived: !s.lambda,
		Executors: executor.Set{"python": simulated{s, p, nil}, "wait": simulated{s, p, executor.Wait{Now: p.clock.Now}}},
	}
	if s.places == 0 { // otherwise tasks wait long enough
		// Few enough that maps wait for each other.
		p.config.Quota = quota.New(quota.Config{Table: p.Table(), Clock: p.clock, Log: quiet, Values: quota.Values{quota.QueuedItems: 3}})
	}
	if s.places > 0 {
		p.config.Executors["python"] = scarce{simulated{s, p, nil}, make(chan struct{}, s.places)}
	}
	if s.secrets {
		p.config.Secret = func(_ context.Context, _, _, name string) (string, error) { return "the secret " + name, nil }
	}
	p.c = worker.New(p.config)
	p.launch = &launch.Launcher{Table: p.Table(), Queues: p.queues, Blob: objects, Clock: p.clock, Log: quiet, Broker: hub}
	p.tick = schedulertick.Spec.Handle(fn.Deps{Table: p.Table(), Queues: p.queues, Clock: p.clock, Log: quiet})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named[p.name] = p
	return p
}

func (s *sim) crashLater(p *proc) {
	s.crashes--
	p.CrashAt(1+s.rng.IntN(cmp.Or(s.crashWithin, 60)), s.rng.IntN(2) == 0)
}

func (p *proc) dead() bool {
	select {
	case <-p.Died():
		return true
	default:
		return false
	}
}

// bury replaces dead processes. A sole process reconciles every run, as at a
// start of the embedded server.
func (s *sim) bury() {
	for i, p := range s.procs {
		if !p.dead() || p.ctx.Err() != nil {
			continue
		}
		p.end()
		now := time.Now()
		s.mu.Lock()
		p.diedAt, s.lastFault = cmp.Or(p.diedAt, now), now
		s.told.note(now, p.name+" died")
		s.mu.Unlock()
		switch {
		case s.power:
			s.cutPower()
		case s.sole:
			s.openQueues()
		}
		next := s.start()
		s.mu.Lock()
		s.procs[i] = next
		s.mu.Unlock()
		if s.crashes > 0 {
			s.crashLater(next)
		}
		if s.sole {
			for _, r := range s.runs() {
				go func() { _ = next.c.Reconcile(next.ctx, r.org, r.id) }()
				synctest.Wait()
			}
		}
	}
}

// may reports whether requests of a process may proceed.
func (s *sim) may(name string) bool {
	for _, p := range s.procs {
		if p.name == name {
			return !time.Now().Before(p.paused)
		}
	}
	return true // a dead one's requests proceed and fail
}

// alive draws a live process; nil if there is none.
func (s *sim) alive() *proc {
	p := s.procs[s.rng.IntN(len(s.procs))]
	if p.dead() || time.Now().Before(p.paused) {
		return nil
	}
	return p
}

// pause delays all requests of a process for a while.
func (s *sim) pause() {
	p, now := s.procs[s.rng.IntN(len(s.procs))], time.Now()
	until := now.Add(time.Duration(s.rng.Int64N(int64(2 * time.Minute))))
	s.mu.Lock()
	defer s.mu.Unlock()
	p.paused, s.lastFault = until, until
	p.pauses = append(p.pauses, [2]time.Time{now, until})
	s.told.note(now, p.name+" is paused for "+until.Sub(now).String())
}
