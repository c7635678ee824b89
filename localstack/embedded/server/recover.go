package server

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"millrace/functions/dispatch"
	"millrace/shared/fn"
	"millrace/shared/runstate"
	"millrace/shared/table"
)

// looksAtOnce bounds how many runs are looked at side by side at the start.
const looksAtOnce = 16

// lookAtLiveRuns has every live run seen to, whenever its next look would be
// due: what an earlier process held or had in memory is gone with it. A run that
// cannot be looked at is logged and comes up again with the ticks.
func lookAtLiveRuns(ctx context.Context, deps fn.Deps) error {
	conductor := dispatch.Conductor(deps)
	seen := 0
	for shard := range runstate.DueShards {
		keys, err := liveRuns(ctx, deps.Table, shard)
		if err != nil {
			return err
		}
		seen += len(keys)
		looks, ctx := errgroup.WithContext(ctx)
		looks.SetLimit(looksAtOnce)
		for _, key := range keys {
			looks.Go(func() error {
				if err := conductor.Look(ctx, key.org, key.run); err != nil {
					deps.Log.Error("run not looked at", "org_id", key.org, "run_id", key.run, "error", err)
				}
				return ctx.Err()
			})
		}
		if err := looks.Wait(); err != nil {
			return err
		}
	}
	if seen > 0 {
		deps.Log.Info("looked at live runs", "runs", seen)
	}
	return nil
}

type runKey struct{ org, run string }

// liveRuns reads one shard of the due index to its end, before any look moves
// entries in it.
func liveRuns(ctx context.Context, t table.Table, shard int) ([]runKey, error) {
	var out []runKey
	for item, err := range table.All(ctx, t, table.Query{Index: table.Due, PK: runstate.DuePartition(shard)}) {
		if err != nil {
			return nil, fmt.Errorf("read due index: %w", err)
		}
		if org, run, ok := runstate.ParseRunKey(item.Key().PK); ok {
			out = append(out, runKey{org, run})
		}
	}
	return out, nil
}
