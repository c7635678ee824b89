// Package worker executes runs by means of the table and the queues. Its parts,
// from the bottom: a session holds what one message has read of its run;
// attempts claims, executes and completes the attempts of tasks; lifecycle
// starts, stops, finishes and archives runs; graph propagates finished nodes to
// their dependents; reconciler repairs what was lost; a driver handles a
// message with them. A worker has no state that another could not take over:
// all decisions are conditional writes, so any number of workers may work on
// one run, and each step may be repeated.
//
// Comments that begin with "//guard:" mark the code that this depends on, here
// and in the packages that it uses. localstack/proof/mutants breaks each of
// them, and a test must fail.
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
	"millrace/shared/platform/notify"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/platform/telemetry"
	"millrace/shared/run/executor"
	"millrace/shared/run/runlog"
	"millrace/shared/run/slots"
)

// Times of the engine.
const (
	Lease          = 30 * time.Second // duration of a claim without a heartbeat
	Heartbeat      = 5 * time.Second  // interval in which a running attempt renews its lease and reads the fence
	CancelPoll     = 5 * time.Second  // interval of reconciliations of a stopped run until nothing runs
	ReconcileEvery = time.Minute      // interval of reconciliations of a live run
	ReconcileMost  = 10 * time.Minute // the same for the largest runs
	MaxLost        = 10               // number of lost leases that ends a task
	FewLost        = 3                // number of lost leases after which further attempts are delayed
	HoldBack       = time.Minute      // that delay
	HandOff        = 30 * time.Minute // until an attempt that was handed off and has not begun is handed off anew
	WriteMargin    = 5 * time.Second  // part of a worker's time reserved for completing
)

// Config configures a Worker.
type Config struct {
	Table     table.Table
	Queues    queue.Queues
	Blob      blob.Store
	Bus       bus.Bus
	Clock     clock.Clock
	Log       *slog.Logger
	Metrics   *telemetry.Metrics // nil: no metrics
	Spans     *telemetry.Spans   // of runs and attempts; nil: none
	Logs      *runlog.Store
	Broker    *notify.Broker
	Executors executor.Set
	Quota     *quota.Quota // nil: no limits
	// Secret resolves a secret of a workspace's environment. nil: there are none.
	Secret func(ctx context.Context, org, environment, name string) (string, error)
	// ProcessID identifies this process in its leases. Empty: a generated id.
	ProcessID string
	// Exclusive means that no other process works on these runs, so that leases of
	// earlier processes are void.
	Exclusive bool
	// LongLived means that the process lives on between messages, so that logs may
	// stay in memory until the next batch.
	LongLived bool
}

// Worker handles the messages of runs. It is safe for concurrent use.
type Worker struct {
	Config
	cache   *caches
	results results      // waiting to be stored
	memory  *budget      // of outputs that expressions read
	scarce  bool         // some executors need a slot
	slots   *slots.Slots // of attempts that are handed off
}

// New returns a Worker.
func New(cfg Config) *Worker {
	if cfg.ProcessID == "" {
		cfg.ProcessID = ids.Token(6)
	}
	c := &Worker{Config: cfg, cache: newCaches(), memory: newBudget(scopeBytes)}
	for _, e := range cfg.Executors {
		_, reserves := e.(executor.Reserver)
		c.scarce = c.scarce || reserves
	}
	limits := slots.Config{Table: cfg.Table, Clock: cfg.Clock, Log: cfg.Log, Limit: func(org string) (int64, bool) {
		return cfg.Quota.Most(quota.RunningTasks, org)
	}}
	if all, limited := cfg.Quota.Most(quota.RunningOfAll, ""); limited {
		limits.All = max(all, 1)
	}
	c.slots = slots.New(limits)
	return c
}

// Reconcile reconciles a run after a restart of the only process that works on
// it: the leases of the earlier process are void, and the queues have kept its
// messages.
func (c *Worker) Reconcile(ctx context.Context, org, run string) error {
	d := newDriver(c.session(org, run))
	return d.reconcile(d.about(ctx, ""), true)
}
