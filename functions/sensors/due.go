package sensors

import (
	"context"
	"errors"
	"time"

	"millrace/shared/account/quota"
	"millrace/shared/kit/due"
	"millrace/shared/kit/record"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/web/fn"
)

func poller(d fn.Deps) fn.MessageHandler { return d.Due(newService(d).poll) }

// poll makes a request for a polling sensor that is due, and starts a run if the
// response matches.
//
// A match is stored before its run is started: after a crash, or when the
// message is repeated, the run is started without another request, whose
// response might not match. The run is that of the sensor and the instant that
// was due, so there is one.
func (s *service) poll(ctx context.Context, task due.Task) error {
	sensor, exists, err := s.sensors.Find(ctx, task.Key.SK)
	if err != nil || !exists || !sensor.Enabled || !sensor.DueAt.Time().Equal(task.At) {
		return err
	}
	if !sensor.Matched {
		got, err := s.pollOnce(ctx, &sensor, maxTimeout)
		if ctx.Err() != nil { // the process ends: the poll is repeated
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if stored, err := s.store(ctx, polled(task, &sensor, s.clock.Now(), got)); err != nil || !stored || !got.matches {
			return err
		}
	}
	run, err := s.start(ctx, &sensor, cause{event: clock.Format(task.At)})
	now := s.clock.Now()
	switch code := errs.CodeOf(err); {
	case err == nil:
		_, err = s.store(ctx, started(task, &sensor, now, run.ID))
	case errors.Is(err, table.ErrConflict): // another is making the run
	case code == errs.TooMany: // it is tried again
		month := errors.Is(err, quota.ErrMonth)
		reason := errs.Text(err)
		if month && text(sensor.LastError) == reason {
			return nil // it waits for the next tick, as it may have to for weeks
		}
		_, noted := s.store(ctx, table.Update{Key: task.Key, If: task.IsDue(), Do: failed(now, reason)})
		if month {
			return noted
		}
		err = errors.Join(err, noted)
	case code == errs.Invalid, code == errs.NotFound, code == errs.Unprocessable, code == errs.Conflict:
		_, err = s.store(ctx, again(task, &sensor, append(failed(now, errs.Text(err)), table.Remove(attrMatched))...))
	}
	return err
}

// store makes a write and reports whether it took effect: it does not if the
// sensor is no longer due, because the task was handled elsewhere or the sensor
// deleted.
func (s *service) store(ctx context.Context, u table.Update) (stored bool, err error) {
	_, err = s.sensors.Table.Update(ctx, u)
	if errors.Is(err, table.ErrConditionFailed) {
		return false, nil
	}
	return err == nil, err
}

// again returns the write that makes a sensor due for its next poll. It keeps
// its phase: ticks are a little late, each time.
func again(task due.Task, sensor *Sensor, changes ...table.Action) table.Update {
	every := sensor.ConfigJSON.interval()
	next := task.At.Add((max(task.Now.Sub(task.At), 0)/every + 1) * every)
	return due.Move(task, next, append(changes, table.Set(attrNextPoll, clock.ToMillis(next)))...)
}

// failed returns the changes after a poll that made no run because of an error.
func failed(now time.Time, why string) []table.Action {
	return []table.Action{record.Touch(now), table.Set(attrLastErrorAt, clock.ToMillis(now)), table.Set(attrLastError, shorten(why))}
}

// succeeded returns the changes after a poll without an error.
func succeeded(now time.Time) []table.Action {
	return []table.Action{record.Touch(now), table.Remove(attrLastErrorAt), table.Remove(attrLastError)}
}

// polled returns the write after a request. If its response matches, the sensor
// stays due until its run is started. One response decides for each time that is
// due: the write fails if another one matched before.
func polled(task due.Task, sensor *Sensor, now time.Time, got response) table.Update {
	changes := succeeded(now)
	if got.failed {
		changes = failed(now, got.reason)
	}
	changes = append(changes, table.Set(attrPolled, clock.ToMillis(task.Now)))
	if got.status != 0 {
		changes = append(changes, table.Set(attrStatus, got.status))
	} else {
		changes = append(changes, table.Remove(attrStatus))
	}
	var u table.Update
	if got.matches {
		u = table.Update{Key: task.Key, If: task.IsDue(), Do: append(changes, table.Set(attrMatched, true))}
	} else {
		u = again(task, sensor, changes...)
	}
	u.If = table.And(u.If, table.Absent(attrMatched)) //guard:sensors/one-response drop arg 2
	return u
}

// started returns the write after the run of a match was started. Without
// allow_concurrent the sensor stops.
func started(task due.Task, sensor *Sensor, now time.Time, run string) table.Update {
	changes := append(succeeded(now), table.Remove(attrMatched),
		table.Set(attrMatchedAt, clock.ToMillis(task.Now)), table.Set(attrRun, run))
	if allow := sensor.ConfigJSON.AllowConcurrent; allow != nil && *allow {
		return again(task, sensor, changes...)
	}
	return due.End(task, append(changes, table.Remove(attrNextPoll), table.Set(attrStopped, clock.ToMillis(task.Now)))...)
}
