package schedules

import (
	"context"
	"errors"
	"time"

	"millrace/shared/account/quota"
	"millrace/shared/kit/due"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/run/launch"
	"millrace/shared/run/schedule"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// Bounds of what is caught up at once; the next tick goes on.
const (
	mostCaughtUp = 100
	catchUpTime  = 20 * time.Second
)

func handler(d fn.Deps) fn.MessageHandler { return d.Due(newService(d).start) }

// start makes the run of a schedule's occurrence, once, and those that were
// missed since if the schedule catches up.
func (s *service) start(ctx context.Context, task due.Task) error {
	began := s.clock.Now()
	for n := 1; ; n++ {
		next, err := s.occurrence(ctx, task)
		if err != nil || next.IsZero() || next.After(task.Now) {
			return err
		}
		if n == mostCaughtUp || s.clock.Now().Sub(began) > catchUpTime {
			return nil
		}
		task.At = next
	}
}

// occurrence handles an occurrence and returns the next one; the zero time if
// there is none, or if the occurrence was handled elsewhere.
func (s *service) occurrence(ctx context.Context, task due.Task) (next time.Time, err error) {
	found, exists, err := s.schedules.Find(ctx, task.Key.SK)
	if err != nil || !exists || !found.Enabled || !found.DueAt.Time().Equal(task.At) {
		return next, err
	}
	req := request(&found, nil)
	req.Occurrence = &launch.Occurrence{Kind: launch.Schedule, ID: found.ScheduleID, Instant: task.At}
	run, err := s.launcher.Accept(ctx, task.Org(), req)
	failure := ""
	switch code := errs.CodeOf(err); {
	case err == nil:
	case errors.Is(err, table.ErrConflict): // another is making the run
		return next, err
	case errors.Is(err, quota.ErrMonth): // it waits for the next tick, as it may have to for weeks
		if reason := errs.Text(err); httpapi.Value(found.LastError) != reason {
			_, err = s.update(ctx, schedule.Failed(task, s.clock.Now(), reason))
			return next, err
		}
		return next, nil
	case code == errs.TooMany: // it is tried again
		_, noted := s.update(ctx, schedule.Failed(task, s.clock.Now(), errs.Text(err)))
		return next, errors.Join(err, noted)
	case code == errs.Invalid, code == errs.NotFound, code == errs.Unprocessable, code == errs.Conflict:
		failure = errs.Text(err)
	default:
		return next, err
	}
	timing, err := found.Timing()
	switch {
	case err != nil:
		return next, err
	case found.CatchupPolicy == schedule.CatchUpAll:
		next = timing.Next(task.At)
	default:
		next = timing.Skip(task.At, task.Now)
	}
	handled, err := s.update(ctx, schedule.Occurred(task, s.clock.Now(), next, run.ID, failure))
	if err != nil || !handled {
		return time.Time{}, err
	}
	return next, nil
}

// update makes a write, unless the schedule is no longer due.
func (s *service) update(ctx context.Context, u table.Update) (done bool, err error) {
	_, err = s.schedules.Table.Update(ctx, u)
	if errors.Is(err, table.ErrConditionFailed) {
		return false, nil
	}
	return err == nil, err
}
