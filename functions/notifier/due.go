package notifier

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"millrace/shared/kit/due"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/alert"
	"millrace/shared/web/fn"
)

// attemptTime is how long an attempt may take, its writes included. A delivery
// whose attempt was not settled is due again after it.
const attemptTime = 30 * time.Second

// delays are the times between the attempts of a delivery, which are one more. A
// quarter is added or taken away at random, so that deliveries that failed
// together are not repeated together.
var delays = []time.Duration{
	6 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour,
}

func dueHandler(d fn.Deps) fn.MessageHandler {
	s := newService(d)
	s.sender = d.Alerts()
	return d.Due(func(ctx context.Context, task due.Task) error {
		if task.Kind == alert.SLA.Name {
			return s.look(ctx, task)
		}
		return s.attempt(ctx, task)
	})
}

// attempt makes one attempt of a delivery, unless it was made already.
func (s *service) attempt(ctx context.Context, task due.Task) error {
	d, message, err := s.take(ctx, task)
	if err != nil || d == nil {
		return err
	}
	// The attempt itself is bounded by its sender, but not by the end of the
	// process: a message that is on its way is settled.
	result := s.send(ctx, d, message)
	if ctx.Err() != nil {
		return ctx.Err() // it is due again
	}
	now := s.clock.Now()
	outcome := []table.Action{table.Set("detail", result.Detail)}
	taken := due.Task{Kind: task.Kind, Key: task.Key, At: d.DueAt.Time()}
	var write table.Update
	var next due.Entry
	delay, again := delayOf(d.Tries, result)
	if again {
		next = Delivery.Entry(task.Key, now.Add(delay))
		write = due.Move(taken, next.DueAt.Time(), outcome...)
		result.Detail += fmt.Sprintf(" (attempt %d of %d; the next in %s)", d.Tries, len(delays)+1, delay.Round(time.Second))
	} else {
		write = due.End(taken, append(outcome, table.Set("status", result.Status))...)
	}
	if _, err := s.table.Update(ctx, write); err != nil && !errors.Is(err, table.ErrConditionFailed) {
		return fmt.Errorf("delivery %s: %w", d.SK, err)
	}
	s.log.InfoContext(ctx, "notification", "delivery", d.SK, "channel", d.Channel, "status", result.Status, "attempt", d.Tries, "again", again)
	err = alert.Delivered(ctx, s.store, d.Channel, alert.Delivery{At: clock.ToMillis(now), Status: result.Status, Detail: result.Detail})
	if again {
		err = errors.Join(err, s.hand(ctx, d.Channel, task.Key, next, delay))
	}
	if err != nil { // the attempt is settled, and a lost message is repeated by the tick
		s.log.WarnContext(ctx, "outcome of a notification not shown, or its repetition delayed", "delivery", d.SK, "error", err)
	}
	return nil
}

// take makes a delivery due again later, so that nobody else attempts it
// meanwhile, and returns it. It returns nil if there is nothing to attempt.
func (s *service) take(ctx context.Context, task due.Task) (*delivery, *alert.Message, error) {
	until := later(s.clock.Now(), task.At).Add(attemptTime)
	item, err := s.table.Update(ctx, due.Move(task, until, table.Add("tries", 1)))
	switch {
	case errors.Is(err, table.ErrConditionFailed):
		return nil, nil, nil // taken elsewhere, or settled
	case err != nil:
		return nil, nil, fmt.Errorf("delivery %s: %w", task.Key.SK, err)
	}
	d := &delivery{}
	if err := table.Unmarshal(item, d); err != nil {
		return nil, nil, err
	}
	m, err := d.alert()
	return d, &m, err
}

// send sends the message of a delivery.
func (s *service) send(ctx context.Context, d *delivery, m *alert.Message) alert.Result {
	failed := func(retryable bool, detail string) alert.Result {
		return alert.Result{Status: alert.StatusFailed, Detail: detail, Retryable: retryable}
	}
	channel, found, err := alert.Channels(s.store).Find(ctx, d.Channel)
	switch {
	case err != nil:
		s.log.WarnContext(ctx, "channel not read", "channel", d.Channel, "error", err)
		return failed(true, "the channel cannot be read now")
	case !found:
		return failed(false, "the channel was deleted")
	}
	if channel.Type == alert.Incident && !m.Resolved && m.Rule.Trigger != alert.OnSuccess {
		over, err := alert.RecoveredSince(ctx, s.table, m.Org, m.Rule.RuleID, m.Run.FlowName, m.At)
		if err != nil {
			return failed(true, "the flow's state cannot be read now")
		}
		if over {
			return failed(false, "the flow has succeeded again before the incident could be opened")
		}
	}
	return s.sender.Send(ctx, &channel, *m)
}

// delayOf returns after which time a delivery is tried again, and whether it is.
func delayOf(tries int, result alert.Result) (time.Duration, bool) {
	if result.Status == alert.StatusDelivered || !result.Retryable || tries > len(delays) {
		return 0, false
	}
	delay := delays[max(tries, 1)-1]
	delay += rand.N(delay/2) - delay/4
	return max(delay, result.RetryAfter), true
}
