package notifier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/shared/kit/due"
	"millrace/shared/kit/record"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/run/alert"
	"millrace/shared/web/fn"
)

// service makes deliveries and attempts of them.
type service struct {
	store  record.Store
	table  table.Table
	queues queue.Queues
	clock  clock.Clock
	log    *slog.Logger
	sender *alert.Sender // nil in the function that takes events
}

func newService(d fn.Deps) *service {
	return &service{store: d.Records(), table: d.Table, queues: d.Queues, clock: d.Clock, log: d.Log}
}

// parallel is the number of deliveries that are stored concurrently.
const parallel = 8

// notify makes the deliveries of a message to the channels of its rule, and hands
// them out. occurrence identifies what the rule waited for: a run, or a retry.
// What exists already is left as it is; only its message is sent again if nobody
// has taken it.
func (s *service) notify(ctx context.Context, m alert.Message, occurrence string) error {
	channels, err := alert.ChannelsOf(ctx, s.store, &m.Rule)
	if err != nil {
		return err
	}
	if m.Resolved {
		occurrence = "resolved/" + occurrence
	} else if m.Rule.Trigger != alert.OnSuccess && hasIncident(channels) {
		if err := alert.Occurred(ctx, s.table, m.Org, m.Rule.RuleID, m.Run.FlowName, m.At, s.clock.Now()); err != nil {
			return err
		}
	}
	made := make([]*delivery, len(channels))
	var group errgroup.Group
	group.SetLimit(parallel)
	for i := range channels {
		if c := &channels[i]; !m.Resolved || c.Type == alert.Incident {
			group.Go(func() (err error) {
				made[i], err = s.create(ctx, &m, c.ChannelID, occurrence)
				return err
			})
		}
	}
	err = group.Wait()
	for _, d := range made {
		if d != nil {
			err = errors.Join(err, s.hand(ctx, d.Channel, d.Key, d.Entry, 0))
		}
	}
	return err
}

func hasIncident(channels []alert.Channel) bool {
	for i := range channels {
		if channels[i].Type == alert.Incident {
			return true
		}
	}
	return false
}

// create stores a delivery. It returns nil if there is one that was taken
// already.
func (s *service) create(ctx context.Context, m *alert.Message, channel, occurrence string) (*delivery, error) {
	d, err := newDelivery(m, channel, occurrence, s.clock.Now())
	if err != nil {
		return nil, err
	}
	err = s.table.Put(ctx, table.Put{Item: d, If: table.IsNew()}) //guard:alert/once drop field If
	failed, exists := errors.AsType[*table.ConditionError](err)
	switch {
	case exists:
		var stored delivery
		if err := table.Unmarshal(failed.Old, &stored); err != nil {
			return nil, err
		}
		if stored.Tries > 0 {
			return nil, nil
		}
		return &stored, nil
	case err != nil:
		return nil, fmt.Errorf("store delivery: %w", err)
	}
	return &d, nil
}

// hand sends the message of a delivery that is due after a delay. A delay that
// is longer than a queue's is left to the tick, as is a message that is lost.
func (s *service) hand(ctx context.Context, channel string, key table.Key, entry due.Entry, delay time.Duration) error {
	if delay > queue.MaxDelay {
		return nil
	}
	m, err := due.Message(Delivery, key, entry.DueSK, time.Time{})
	if err != nil {
		return err
	}
	// Each channel has its own share of the queue.
	m.Group += "/" + channel
	m.Delay = delay
	return s.queues.Send(ctx, Delivery.Queue(), m)
}
