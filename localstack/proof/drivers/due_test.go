package drivers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/functions/catalog"
	"millrace/functions/schedulertick"
	"millrace/localstack/embedded/runtime"
	"millrace/localstack/proof/fixture/reminders"
	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/table"
	"millrace/shared/web/fn"
)

func TestTimedWorkEmbedded(t *testing.T) {
	t.Parallel()
	timedWork(t, localtest.Options{})
}

func TestTimedWorkCloud(t *testing.T) {
	t.Parallel()
	timedWork(t, cloud(t))
}

// timedWork makes items of a function come due, twice each, on any drivers.
func timedWork(t *testing.T, o localtest.Options) {
	const items = 20
	specs := catalog.With(reminders.DueSpec)
	o.Config = fn.Config{Exclusive: true} // a tick may bring its time
	env := localtest.Open(t, o, specs...)
	tick, found := catalog.Find(specs, schedulertick.Spec.Name)
	require.True(t, found)
	used := []fn.Spec{tick, reminders.DueSpec}
	rt, err := runtime.New(runtime.Config{Specs: used, Deps: env.Deps, Workers: 16})
	require.NoError(t, err)
	rt.Start(used, false)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		rt.Stop(ctx)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ticks := func(at time.Time) (result events.SchedulerTickResult) {
		tracked, handed := rt.Track(ctx)
		defer handed.Close()
		payload, err := json.Marshal(events.SchedulerTick{EventType: events.TickType, Now: at.Format(time.RFC3339)})
		require.NoError(t, err)
		out, err := rt.Invoke(tracked, tick.Name, payload)
		require.NoError(t, err)
		require.NoError(t, handed.Wait(ctx))
		require.NoError(t, json.Unmarshal(out, &result))
		return result
	}
	now := env.Clock.Now()
	var writes []table.Write
	for i := range items {
		writes = append(writes, table.Put{Item: reminders.New(reminders.Reminder, env.A.OrgID, fmt.Sprint("r", i), now.Add(time.Hour), time.Hour)})
	}
	require.NoError(t, env.Deps.Table.BatchWrite(ctx, writes))
	assert.Zero(t, ticks(now).Checked)
	for n := range 2 {
		at := now.Add(time.Duration(n+1)*time.Hour + time.Minute)
		assert.Equal(t, events.SchedulerTickResult{Status: "processed", Checked: items, Triggered: items}, ticks(at))
		for i := range items {
			r, err := table.Load[reminders.Record](ctx, env.Deps.Table, reminders.Key(env.A.OrgID, fmt.Sprint("r", i)), table.Consistent)
			require.NoError(t, err)
			assert.Equal(t, n+1, r.Count)
		}
		assert.Zero(t, ticks(at).Checked, "all are due later")
	}
}
