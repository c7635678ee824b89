package server

import (
	"context"
	"fmt"
	"time"

	"millrace/functions/dispatch"
	"millrace/shared/platform/table"
	"millrace/shared/platform/telemetry"
	"millrace/shared/run/runstate"
	"millrace/shared/web/fn"
)

// reconcilePage is the number of entries of the due index in one read.
const reconcilePage = 256

// reconcileLiveRuns reconciles every live run, whether it is due or not,
// because leases and in-memory state of an earlier process are gone. Nothing
// waits for it: a worker that receives an older message finds the leases void,
// and reconciliation finds work whose message was lost. Runs are reconciled one
// after the other, to leave processor time to requests. If a run cannot be
// reconciled, that is logged, and a tick handles the run when it is due.
//
// The due index is read page by page while reconciliations move its entries,
// mostly to a later position in the same read, so the reconciled runs of each
// shard are remembered. An entry that moves to a position already read was
// moved by another reconciliation of this process.
func reconcileLiveRuns(ctx context.Context, deps fn.Deps, page int) error {
	begin, seen := time.Now(), 0
	worker := dispatch.Worker(deps)
	for shard := range runstate.DueShards {
		reconciled := map[table.Key]bool{}
		due := table.Query{Index: table.Due, PK: runstate.DuePartition(shard), Limit: page}
		for item, err := range table.All(ctx, deps.Table, due) {
			if err != nil {
				return fmt.Errorf("read due index: %w", err)
			}
			key := item.Key()
			org, run, ok := runstate.ParseRunKey(key.PK)
			if !ok || reconciled[key] {
				continue
			}
			reconciled[key] = true
			err = worker.Reconcile(ctx, org, run)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				deps.Log.Error("run not reconciled", "org_id", org, "run_id", run, "error", err)
			}
		}
		seen += len(reconciled)
	}
	if seen > 0 {
		deps.Log.Info("live runs reconciled", "runs", seen, "duration_ms", telemetry.Milliseconds(time.Since(begin)))
	}
	return nil
}

// recovering reconciles the live runs in the background. The returned function
// stops that and waits for a reconciliation in progress. Remaining runs are
// reconciled at the next start.
func recovering(deps fn.Deps) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := reconcileLiveRuns(ctx, deps, reconcilePage); err != nil && ctx.Err() == nil {
			deps.Log.Error("live runs not reconciled", "error", err)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
