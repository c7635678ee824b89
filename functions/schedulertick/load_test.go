package schedulertick_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/functions/schedulertick"
	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/platform/telemetry"
	"millrace/shared/platform/telemetry/telemetrytest"
	"millrace/shared/run/runstate"
)

// distant is a table of due runs whose requests take as long as on AWS, and more
// than that. It has what a tick uses.
type distant struct {
	table.Table
	shards    map[string][]string // overdue runs by partition
	page, put time.Duration

	mu    sync.Mutex
	moved int
}

// entry is what a query of the due index returns.
type entry struct {
	table.Key
	table.DueEntry
}

func (d *distant) Query(ctx context.Context, q table.Query) (table.Page, error) {
	if err := wait(ctx, d.page); err != nil {
		return table.Page{}, err
	}
	first := 0
	if q.Start != "" {
		if _, err := fmt.Sscan(string(q.Start), &first); err != nil {
			return table.Page{}, err
		}
	}
	all := d.shards[q.PK]
	end := min(first+q.Limit, len(all))
	var page table.Page
	for _, id := range all[first:end] {
		item, err := table.Marshal(entry{runstate.RunKey("org_1", id), runstate.DueAt("org_1", id, 1, time.Now().Add(-time.Hour))})
		if err != nil {
			return table.Page{}, err
		}
		page.Items = append(page.Items, item)
	}
	if end < len(all) {
		page.Next = table.Cursor(fmt.Sprint(end))
	}
	return page, nil
}

func (d *distant) Update(ctx context.Context, _ table.Update) (table.Item, error) {
	if err := wait(ctx, d.put); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.moved++
	return nil, nil
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// distantQueues counts messages.
type distantQueues struct {
	queue.Queues
	batch time.Duration

	mu   sync.Mutex
	sent int
}

func (q *distantQueues) Send(ctx context.Context, _ string, msgs ...queue.Message) error {
	if err := wait(ctx, q.batch); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sent += len(msgs)
	return nil
}

// overdue returns a table with due runs spread over the shards.
func overdue(runs int) *distant {
	d := &distant{shards: map[string][]string{}}
	for i := range runs {
		id := fmt.Sprint("run", i)
		pk := runstate.DueAt("org_1", id, 1, time.Time{}).DuePK
		d.shards[pk] = append(d.shards[pk], id)
	}
	return d
}

// tick returns the result of a tick, how long it took, and its metrics.
func (d *distant) tick(t *testing.T, q *distantQueues, payload string) (events.SchedulerTickResult, time.Duration, []telemetrytest.Metric, error) {
	t.Helper()
	env := localtest.New(t)
	deps := env.Deps
	deps.Table, deps.Queues = d, q
	var log telemetrytest.Log
	deps.Metrics = telemetry.NewMetrics("Test", &log)
	began := time.Now()
	ctx := telemetry.With(t.Context(), &telemetry.Subject{Function: "scheduler-tick"})
	out, err := schedulertick.For().Handle(deps)(ctx, json.RawMessage(payload))
	took := time.Since(began)
	require.NoError(t, deps.Metrics.Flush(began, telemetry.Subject{}))
	result, _ := out.(events.SchedulerTickResult)
	return result, took, telemetrytest.Metrics(t, log.Lines(t)), err
}

// TestTickHandsOutHundredThousandEntries in its minute, with twice the usual
// latencies of DynamoDB and SQS. What it takes of a processor is not simulated.
func TestTickHandsOutHundredThousandEntries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const all = 100_000
		d, q := overdue(all), &distantQueues{batch: 30 * time.Millisecond}
		d.page, d.put = 60*time.Millisecond, 10*time.Millisecond
		result, took, metrics, err := d.tick(t, q, `{"event_type":"scheduler_tick","max_due":100000}`)
		require.NoError(t, err)
		assert.Equal(t, events.SchedulerTickResult{Status: "processed", Checked: all, Triggered: all}, result)
		assert.Equal(t, []int{all, all}, []int{q.sent, d.moved})
		assert.Less(t, took, 40*time.Second)
		assert.InDelta(t, time.Hour.Milliseconds(), telemetrytest.Sum(metrics, "TickLag"), 60_000)
	})
}

// TestTickOutOfTimeReportsItsLag checks that a tick that had no time for all
// reports the lag of what it read, and what it did not read as failures.
func TestTickOutOfTimeReportsItsLag(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, q := overdue(50_000), &distantQueues{batch: 5 * time.Second}
		d.put = 300 * time.Millisecond
		result, took, metrics, err := d.tick(t, q, `{"event_type":"scheduler_tick","max_due":100000}`)
		require.NoError(t, err)
		assert.Less(t, took, schedulertick.Spec.Timeout)
		assert.Less(t, result.Checked, 50_000)
		assert.InDelta(t, time.Hour.Milliseconds(), telemetrytest.Sum(metrics, "TickLag"), 60_000)
	})
}

// TestTickThatReadsNothingReportsNoLag checks that a tick that could read no
// shard fails: a lag of zero would look healthy.
func TestTickThatReadsNothingReportsNoLag(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, q := overdue(100), &distantQueues{}
		d.page = time.Minute
		_, took, metrics, err := d.tick(t, q, `{"event_type":"scheduler_tick"}`)
		require.Error(t, err)
		assert.Less(t, took, schedulertick.Spec.Timeout)
		assert.Empty(t, metrics)
	})
}
