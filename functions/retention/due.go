package retention

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/shared/account/retention"
	"millrace/shared/kit/due"
	"millrace/shared/platform/table"
)

// again is when a sweep goes on that has met its bound.
const again = time.Minute

// sweep removes what has expired of a workspace. A task that comes twice finds
// less to remove.
func (s *service) sweep(ctx context.Context, task due.Task) error {
	org := task.Org()
	bodies, err := s.sweepBodies(ctx, org)
	if err != nil {
		return fmt.Errorf("remove bodies of messages: %w", err)
	}
	runs, err := s.sweepRuns(ctx, org)
	if err != nil {
		return fmt.Errorf("remove objects of runs: %w", err)
	}
	next := retention.Next(org, s.clock.Now())
	if bodies || runs {
		next = s.clock.Now().Add(again)
	}
	_, err = s.table.Update(ctx, due.Move(task, next))
	if errors.Is(err, table.ErrConditionFailed) {
		return nil // the task was handled elsewhere
	}
	return err
}
