// Package worker moves runs forward over the table and the queues. Its parts,
// from the bottom: a session holds what one message has read of its run; attempts
// claims, executes and completes the attempts of tasks; lifecycle starts, stops,
// finishes and archives runs; graph propagates what has finished to what depends
// on it; reconciler mends what was lost; a driver does what a message says with
// them. It holds no state that another worker could not take up: everything is
// decided by conditional writes, so any number of workers may work on one run,
// and each step may be repeated.
//
// Comments that begin with "//guard:" mark what that rests on, here as in the
// packages it uses: localstack/proof/mutants breaks each, and a test must fail.
package worker

import (
	"context"
	"log/slog"
	"time"

	"millrace/shared/account/quota"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/bus"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/signal"
	"millrace/shared/platform/table"
	"millrace/shared/platform/telemetry"
	"millrace/shared/run/executor"
	"millrace/shared/run/runlog"
)

// The times of the engine.
const (
	Lease          = 30 * time.Second // how long a claim holds without a heartbeat
	Heartbeat      = 5 * time.Second  // how often a running attempt renews it and reads the fence
	CancelPoll     = 5 * time.Second  // how often a stopped run is reconciled until nothing runs
	ReconcileEvery = time.Minute      // how often a live run is reconciled
	ReconcileMost  = 10 * time.Minute // the same for the largest
	MaxLost        = 10               // leases a task may lose
	FewLost        = 3                // after which it is held back before each further attempt
	HoldBack       = time.Minute      // for so long
	WriteMargin    = 5 * time.Second  // of a worker's time kept for completing
)

// Config is what a Worker stands on.
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
	Quota     *quota.Quota // nil: nothing is limited
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

// Worker is safe for concurrent use.
type Worker struct {
	Config
	cache   *caches
	results results // that wait to be stored
	memory  *budget // of what expressions read
	scarce  bool    // some executors need a place
}

// New makes a Worker.
func New(cfg Config) *Worker {
	if cfg.Boot == "" {
		cfg.Boot = ids.Token(6)
	}
	c := &Worker{Config: cfg, cache: newCaches(), memory: newBudget(scopeBytes)}
	for _, e := range cfg.Executors {
		_, reserves := e.(executor.Reserver)
		c.scarce = c.scarce || reserves
	}
	return c
}

// Reconcile reconciles a run after a restart of the process that works on it alone:
// the leases of the process before are void, and the queues have kept its
// messages.
func (c *Worker) Reconcile(ctx context.Context, org, run string) error {
	d := newDriver(c.session(org, run))
	return d.reconcile(d.about(ctx, ""), true)
}
