// Package conductor moves runs forward over the table and the queues: it
// starts them, claims, executes and finishes their tasks, walks from finished
// tasks to what they lead to, repairs what was lost, and ends them. It holds no
// state that another worker could not take up: everything is decided by
// conditional writes, so any number of conductors may work on one run, and
// each step may be repeated.
//
// Comments that begin with "//guard:" mark what that rests on, here as in the
// packages it uses: localstack/proof/mutants breaks each, and a test must fail.
package conductor

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"millrace/events"
	"millrace/shared/blob"
	"millrace/shared/bus"
	"millrace/shared/clock"
	"millrace/shared/executor"
	"millrace/shared/ids"
	"millrace/shared/queue"
	"millrace/shared/runlog"
	"millrace/shared/signal"
	"millrace/shared/table"
	"millrace/shared/telemetry"
)

// The times of the engine.
const (
	Lease       = 30 * time.Second // how long a claim holds without a heartbeat
	Heartbeat   = 5 * time.Second  // how often a running attempt renews it and reads the fence
	CancelPoll  = 5 * time.Second  // how often a stopped run is looked at until nothing runs
	LookEvery   = time.Minute      // how often a live run is looked at
	LookMost    = 10 * time.Minute // the same for the largest
	MaxLost     = 10               // leases a task may lose
	WriteMargin = 5 * time.Second  // of a worker's time kept for finishing
)

// Config is what a Conductor stands on.
type Config struct {
	Table     table.Table
	Queues    queue.Queues
	Blob      blob.Store
	Bus       bus.Bus
	Clock     clock.Clock
	Log       *slog.Logger
	Metrics   *telemetry.Metrics // nil: nothing is measured
	Logs      *runlog.Store
	Hub       *signal.Hub
	Executors executor.Set
	// Secret resolves a secret of a workspace's environment; nil: there are none.
	Secret func(ctx context.Context, org, environment, name string) (string, error)
	// Boot names this process in its leases; empty: a name of its own.
	Boot string
	// Sole says that no other process works on these runs, so that a lease of
	// an earlier process is void.
	Sole bool
	// Resident says that the process lives on between messages, so that logs
	// may wait in memory for the next batch.
	Resident bool
}

// Conductor is safe for concurrent use.
type Conductor struct {
	Config
	cache *caches
}

// New makes a Conductor.
func New(cfg Config) *Conductor {
	if cfg.Boot == "" {
		cfg.Boot = ids.Token(6)
	}
	return &Conductor{Config: cfg, cache: newCaches()}
}

// Verdict is what becomes of a message that was handled without an error.
type Verdict struct {
	// Again is when to deliver the message again; 0: it is done with.
	Again time.Duration
}

// Handle does what a message says. deliveries counts how often it was
// delivered, 1 for the first. After an error the message is to be delivered
// again: every step is repeatable.
func (c *Conductor) Handle(ctx context.Context, m events.Run, deliveries int) (Verdict, error) {
	s := c.session(m.Org, m.Run)
	return s.handle(s.about(ctx, m.Trace), m, deliveries)
}

func (s *session) handle(ctx context.Context, m events.Run, deliveries int) (Verdict, error) {
	s.again = deliveries > 1
	var err error
	switch m.Kind {
	case events.RunStart:
		err = s.start(ctx)
	case events.RunTask:
		s.chain = fmt.Sprint(m.Node)
		err = s.drive(ctx, ready{node: node(m.Node), attempt: m.Attempt})
	case events.RunWalk, events.RunExpand:
		s.chain = fmt.Sprintf("%d/%d", m.Node, m.Part)
		err = s.part(ctx, m)
	case events.RunLook:
		err = s.look(ctx, false)
	default:
		return Verdict{}, fmt.Errorf("conductor: unknown message kind %q", m.Kind)
	}
	if err == nil && !s.Resident { //guard:log/before-delete false
		err = s.Logs.Flush(ctx, m.Org, m.Run)
	}
	return Verdict{Again: s.busy}, err
}

// Look looks at a run after a restart of the process that works on it alone:
// the leases of the process before are void, and the queues have kept its
// messages.
func (c *Conductor) Look(ctx context.Context, org, run string) error {
	s := c.session(org, run)
	return s.look(s.about(ctx, ""), true)
}
