package server

import (
	"context"
	"fmt"
	"time"

	"millrace/functions/dispatch"
	"millrace/shared/platform/table"
	"millrace/shared/run/runstate"
	"millrace/shared/web/fn"
)

// looksPage is how many entries of the due index are read at a time.
const looksPage = 256

// lookAtLiveRuns has every live run seen to, whenever its next look would be
// due: what an earlier process held or had in memory is gone with it. Nothing
// waits for that: who takes one of the messages that the queues have kept finds
// the leases void as reconciliation does, which finds what no message tells of. They
// are made one after the other, to leave the processors to what the server is
// asked meanwhile. A run that cannot be looked at is logged and comes up again
// with the ticks.
//
// The due index is read page by page while reconciliations move entries in it, mostly to
// where they are read again: of each shard it is noted which runs were looked at.
// An entry that is moved to where it is not read any more was moved by another
// look of this process.
func lookAtLiveRuns(ctx context.Context, deps fn.Deps, page int) error {
	begin, seen := time.Now(), 0
	worker := dispatch.Worker(deps)
	for shard := range runstate.DueShards {
		looked := map[table.Key]bool{}
		due := table.Query{Index: table.Due, PK: runstate.DuePartition(shard), Limit: page}
		for item, err := range table.All(ctx, deps.Table, due) {
			if err != nil {
				return fmt.Errorf("read due index: %w", err)
			}
			key := item.Key()
			org, run, ok := runstate.ParseRunKey(key.PK)
			if !ok || looked[key] {
				continue
			}
			looked[key] = true
			err = worker.Reconcile(ctx, org, run)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				deps.Log.Error("run not looked at", "org_id", org, "run_id", run, "error", err)
			}
		}
		seen += len(looked)
	}
	if seen > 0 {
		deps.Log.Info("looked at live runs", "runs", seen, "took", time.Since(begin))
	}
	return nil
}

// recovering reconciles the live runs in the background until the function it
// returns is called, which waits for a look under way. Runs that were not looked
// at by then are at the next start.
func recovering(deps fn.Deps) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := lookAtLiveRuns(ctx, deps, looksPage); err != nil && ctx.Err() == nil {
			deps.Log.Error("live runs not looked at", "error", err)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
