package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"millrace/events"
	"millrace/shared/kit/due"
	"millrace/shared/kit/record"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/run/schedule"
)

// DueSchedules is the number of schedules that a counted tick finds due.
const DueSchedules = 1000

// scheduleCounts are the numbers of schedules among which they are.
var scheduleCounts = []int{DueSchedules, 100 * DueSchedules}

// startWork is the work of the function that starts the runs of schedules.
var startWork = fmt.Sprintf("start the runs of %d schedules", DueSchedules)

func tickWork(schedules int) string {
	return fmt.Sprintf("tick, %d of %d schedules due", DueSchedules, schedules)
}

// ticks counts ticks, each in a service of its own: what is due must not depend
// on earlier runs.
func (t *tally) ticks(ctx context.Context, objects blob.Store) error {
	for _, n := range scheduleCounts {
		if n > DueSchedules && t.widest < Widest {
			continue
		}
		s, err := openSchedules(ctx, platform{objects: objects}, n)
		if err != nil {
			return err
		}
		own := tally{service: s}
		err = own.note(tickWork(n), 0, func() error { return s.tickSchedules(ctx) })
		if err == nil && n == DueSchedules {
			err = own.note(startWork, 0, func() error { return s.startSchedules(ctx, s.handle) })
		}
		if err := errors.Join(err, s.close()); err != nil {
			return err
		}
		t.counts = append(t.counts, own.counts...)
	}
	return nil
}

// TickTimes returns how long a tick takes that finds DueSchedules of n schedules
// due, and how long the start of their runs takes by one invocation after the
// other, if a request to the table or a queue takes a time. It is to be called
// in a synctest bubble, in which nothing else takes time.
func TickTimes(ctx context.Context, objects blob.Store, n int, request time.Duration) (tick, start time.Duration, err error) {
	p := platform{objects: objects, delay: &delay{}}
	s, err := openSchedules(ctx, p, n)
	if err != nil {
		return 0, 0, err
	}
	p.delay.each = request
	began := time.Now()
	err = s.tickSchedules(ctx)
	tick = time.Since(began)
	if err == nil {
		err = s.startSchedules(ctx, s.handleTogether)
		start = time.Since(began) - tick
	}
	return tick, start, errors.Join(err, s.close())
}

// openSchedules opens a service with n schedules, DueSchedules of which are due.
func openSchedules(ctx context.Context, p platform, n int) (*service, error) {
	s, err := openService(ctx, p)
	if err != nil {
		return nil, err
	}
	if _, err = (&tally{service: s}).warm(ctx, single()); err == nil {
		err = s.schedule(ctx, n)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// schedule stores n schedules of the flow single.
func (s *service) schedule(ctx context.Context, n int) error {
	const batch = 1000
	writes := make([]table.Write, 0, batch)
	for i := range n {
		at := still().Add(-time.Duration(i+1) * time.Millisecond)
		if i >= DueSchedules {
			at = still().Add(time.Hour + time.Duration(i)*time.Millisecond)
		}
		writes = append(writes, table.Put{Item: s.interval(i, at)})
		if len(writes) == batch || i == n-1 {
			if err := s.table.BatchWrite(ctx, writes); err != nil {
				return fmt.Errorf("store schedules: %w", err)
			}
			writes = writes[:0]
		}
	}
	return nil
}

// interval returns the i-th schedule, due at a time. The ids of those that a
// tick finds due are such that all shards have as many, whatever the
// workspace's id.
func (s *service) interval(i int, at time.Time) schedule.Schedule {
	flow := single()
	out := schedule.Schedule{
		FlowName: flow.Name, FlowVersion: &flow.Version, Mode: schedule.Interval, IntervalSeconds: new(int64(3600)),
		Timezone: "UTC", Enabled: true, CatchupPolicy: schedule.CatchUpNone,
	}
	for try := 0; ; try++ {
		out.ScheduleID = fmt.Sprintf("s%06d-%03d", i, try)
		out.Meta = record.Meta{Made: record.Made{Key: table.Key{PK: s.org + "#" + schedule.Kind.Folder, SK: out.ScheduleID}}}
		out.SetNext(out.Key, at)
		if i >= DueSchedules || out.DuePK == schedule.Due.Partition(i%due.Shards) {
			return out
		}
	}
}

// tickSchedules makes a tick, which must hand out all schedules that are due.
func (s *service) tickSchedules(ctx context.Context) error {
	payload, err := json.Marshal(events.SchedulerTick{EventType: events.TickType, MaxDue: events.DefaultMaxDue})
	if err != nil {
		return err
	}
	got, err := s.tick(ctx, payload)
	if want := (events.SchedulerTickResult{Status: "processed", Checked: DueSchedules, Triggered: DueSchedules}); err == nil && got != want {
		err = fmt.Errorf("the tick's result is %+v", got)
	}
	return err
}

// startSchedules handles the messages of schedules that are due, in batches.
func (s *service) startSchedules(ctx context.Context, handle func(context.Context, handler, []queue.Delivery) error) error {
	for _, h := range s.handlers {
		if h.queue != schedule.Due.Queue() {
			continue
		}
		for handled := 0; ; {
			got, err := s.queues.Receive(ctx, h.queue, queue.MaxBatch, 0)
			if err != nil {
				return err
			}
			if len(got) == 0 && handled != DueSchedules {
				return fmt.Errorf("%d schedules were handed out", handled)
			}
			if len(got) == 0 {
				return nil
			}
			handled += len(got)
			if err := handle(ctx, h, got); err != nil {
				return err
			}
		}
	}
	return errors.New("no function starts the runs of schedules")
}
