package backfills

import (
	"context"
	"errors"
	"time"

	"millrace/shared/kit/due"
	"millrace/shared/platform/table"
	"millrace/shared/web/fn"
)

// lookEvery is the interval at which an unfinished backfill is looked at.
const lookEvery = time.Minute

func dueHandler(d fn.Deps) fn.MessageHandler { return d.Due(newService(d).look) }

// look goes on with a backfill, whichever of its runs have ended, and has it
// come up again unless it is finished.
func (s *service) look(ctx context.Context, task due.Task) error {
	if err := s.advance(ctx, task.Key.SK, ""); err != nil {
		return err
	}
	_, err := s.jobs.Table.Update(ctx, due.Move(task, s.clock.Now().Add(lookEvery)))
	if errors.Is(err, table.ErrConditionFailed) {
		return nil // it is finished, or was looked at elsewhere
	}
	return err
}

// kick has a backfill looked at now. If the message is lost, its due entry
// brings it up.
func (s *service) kick(ctx context.Context, j *Job) {
	m, err := due.Message(Due, j.Key, j.DueSK, time.Time{})
	if err == nil {
		err = s.queues.Send(context.WithoutCancel(ctx), Due.Queue(), m)
	}
	if err != nil {
		s.log.WarnContext(ctx, "message of a backfill not sent, a tick makes up for it", "backfill_id", j.BackfillID, "error", err)
	}
}
