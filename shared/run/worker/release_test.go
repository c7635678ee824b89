package worker_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
)

// TestNothingIsLoggedAfterTheEnd stops runs before a task was claimed and while
// one ran: its events are in the archive once, a message that claims a task
// after the end logs nothing, and nothing is left besides the archive.
func TestNothingIsLoggedAfterTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		begun := make(chan struct{}, 1)
		w.task("slow", func(ctx context.Context, _ *executor.Attempt) executor.Result {
			begun <- struct{}{}
			<-ctx.Done()
			return ok("1")
		})
		w.register("f", spec("slow"))
		running := w.run("f").ID
		<-begun
		_, err := w.launch.Cancel(w.ctx, org, running)
		require.NoError(t, err)
		assert.Equal(t, engine.Cancelled, w.wait(running).Status)
		stopped := func(id string) (n int) {
			page, err := w.logs.Page(w.ctx, org, id, true, "", runlog.MaxLimit)
			require.NoError(t, err)
			for _, e := range page.Events {
				if jsonField(t, e, "event_type") == runlog.TypeTaskCancelled {
					n++
				}
			}
			return n
		}
		assert.Equal(t, 1, stopped(running))

		// A late message claims a task of an ended run.
		err = handed{w.c}.Handle(w.ctx, events.Run{Kind: events.RunTask, Org: org, Run: running, Node: 0, Attempt: 1}, 1)
		require.NoError(t, err)
		w.register("g", spec("late"))
		w.rt.Stop(w.ctx)
		queued := w.run("g").ID
		_, err = w.launch.Cancel(w.ctx, org, queued)
		require.NoError(t, err)
		for _, m := range []events.Run{{Kind: events.RunReconcile}, {Kind: events.RunTask, Attempt: 1}} {
			m.Org, m.Run = org, queued
			err = handed{w.c}.Handle(w.ctx, m, 1)
			require.NoError(t, err)
		}
		assert.Equal(t, engine.Cancelled, w.status(queued, "late"))
		time.Sleep(time.Minute) // until buffered lines are written
		for _, id := range []string{running, queued} {
			batches, err := w.table.Query(w.ctx, table.Query{PK: runstate.LogPartition(org, id)})
			require.NoError(t, err)
			assert.Empty(t, batches.Items, "of run %s", id)
		}
		assert.Equal(t, 1, stopped(running))
		assert.Zero(t, stopped(queued))
	})
}

func jsonField(t *testing.T, raw []byte, name string) string {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal(raw, &m))
	s, _ := m[name].(string)
	return s
}
