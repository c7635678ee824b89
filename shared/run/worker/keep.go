package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/shared/account/quota"
	"millrace/shared/platform/table"
	"millrace/shared/run/runstate"
)

// keep moves the expiry of the items of a run that lives for days, so that they
// do not expire before its record, and returns the actions that note it in the
// record. It reads all of the run's nodes, once in [runstate.StaleAfter].
func (d *driver) keep(ctx context.Context, now time.Time) ([]table.Action, error) {
	if _, limited := d.Quota.Kept(d.org, quota.RunDays); !limited {
		return nil, nil
	}
	if now.Sub(max(d.run.KeptAt, d.run.CreatedAt).Time()) < runstate.StaleAfter { //guard:retention/kept true
		return nil, nil
	}
	keys := []table.Key{runstate.InputKey(d.org, d.id)}
	for item, err := range runstate.Nodes(ctx, d.Table, d.run, d.flow.plan, true, runstate.Only(runstate.NodeStatus)) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, item.Key)
	}
	for _, key := range keys {
		_, err := d.Table.Update(ctx, table.Update{Key: key, Do: runstate.Keep(d.Quota, d.org, now), If: table.IsStored()})
		if err != nil && !errors.Is(err, table.ErrConditionFailed) {
			return nil, fmt.Errorf("keep the items of run %s: %w", d.id, err)
		}
	}
	return []table.Action{table.Set(runstate.RunKept, int64(millis(now)))}, nil
}
