package launch_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/localstack/proof/memory"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/launch"
	"millrace/shared/run/registry"
	"millrace/shared/run/runstate"
)

// nowhere is a set of queues that reject all messages.
type nowhere struct{ queue.Queues }

func (nowhere) Send(context.Context, string, ...queue.Message) error { return errors.New("down") }

// sent removes and returns the messages of a queue.
func (k *keys) sent(name string) []events.Run {
	k.t.Helper()
	got, err := k.queues.Receive(k.ctx, name, queue.MaxBatch, 0)
	require.NoError(k.t, err)
	out := make([]events.Run, len(got))
	for i, m := range got {
		require.NoError(k.t, json.Unmarshal(m.Body, &out[i]))
		assert.Equal(k.t, org, m.Group)
		require.NoError(k.t, k.queues.Delete(k.ctx, name, m.Receipt))
	}
	return out
}

// deploy stores a deployment, or deletes it if flow is empty.
func (k *keys) deploy(name, flow string) {
	k.t.Helper()
	key := table.Key{PK: org + "#deployments", SK: name}
	if flow == "" {
		require.NoError(k.t, k.store.Delete(k.ctx, table.Delete{Key: key}))
		return
	}
	item := table.Item{"pk": table.V(key.PK), "sk": table.V(key.SK), "name": table.V(name), "flow_name": table.V(flow), "flow_version": table.V("1"), "status": table.V(registry.Active), "environment": table.V("default")}
	require.NoError(k.t, k.store.Put(k.ctx, table.Put{Item: item}))
}

// TestReplayNeedsNoDeployment checks that a repeated request gets its first
// response, even if the deployment that it names has changed or is gone.
func TestReplayNeedsNoDeployment(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	k.deploy("d", "f")
	l := k.launcher(k.store)
	req := launch.Request{Deployment: "d", Trigger: launch.Manual, Key: "key", Fingerprint: "by deployment"}
	first, err := l.Accept(k.ctx, org, req)
	require.NoError(t, err)
	k.deploy("d", "")
	again, err := l.Accept(k.ctx, org, req)
	require.NoError(t, err)
	assert.Equal(t, first.ID, again.ID)
	k.deploy("d", "other")
	again, err = l.Accept(k.ctx, org, req)
	require.NoError(t, err)
	assert.Equal(t, first.ID, again.ID)

	_, err = l.Accept(k.ctx, org, keyed("by flow"))
	assert.Equal(t, errs.Unprocessable, errs.CodeOf(err), "a key is of a flow, however the request names it")
	req.Key = "another"
	_, err = l.Accept(k.ctx, org, req)
	assert.Equal(t, errs.NotFound, errs.CodeOf(err))
}

// TestReplayedRunIsSentAgain repeats a request whose response and message were
// lost.
func TestReplayedRunIsSentAgain(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	l := k.launcher(k.store)
	l.Queues = nowhere{k.queues}
	first, err := l.Accept(k.ctx, org, keyed("request"))
	require.NoError(t, err)
	require.Empty(t, k.sent(events.Tasks("nano")))

	l.Queues = k.queues
	_, err = l.Accept(k.ctx, org, keyed("request"))
	require.NoError(t, err)
	assert.Equal(t, []events.Run{{Kind: events.RunStart, Org: org, Run: first.ID, Timeout: new(int)}}, k.sent(events.Tasks("nano")))

	_, err = k.store.Update(k.ctx, table.Update{Key: first.Key, Do: []table.Action{table.Set(runstate.RunStatus, string(engine.Running))}})
	require.NoError(t, err)
	again, err := l.Accept(k.ctx, org, keyed("request"))
	require.NoError(t, err)
	assert.Equal(t, engine.Queued, again.Status, "as the first answer said")
	assert.Empty(t, k.sent(events.Tasks("nano")), "somebody took it up")
}

// TestLostMessageOfCancelIsRepaired checks that the next tick finds a cancelled
// run whose message was lost, and that a repeated cancel sends another message.
func TestLostMessageOfCancelIsRepaired(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	k.queues = memory.Queues(t, clock.System{}, []queue.Definition{{Name: events.Tasks("nano"), Visibility: time.Minute}, {Name: events.Runs, Visibility: time.Minute}})
	for _, status := range []engine.Status{engine.Queued, engine.Running} {
		now := time.Now().Truncate(time.Millisecond)
		l := k.launcher(k.store)
		l.Clock = clock.Func(func() time.Time { return now })
		run, err := l.Accept(k.ctx, org, launch.Request{Flow: "f", Version: "1", Trigger: launch.Manual})
		require.NoError(t, err)
		far := runstate.DueAt(org, run.ID, run.Tasks, now.Add(10*time.Minute))
		_, err = k.store.Update(k.ctx, table.Update{Key: run.Key, Do: []table.Action{
			table.Set(runstate.RunStatus, string(status)), table.Set(runstate.DuePK, far.DuePK), table.Set(runstate.DueSK, far.DueSK),
		}})
		require.NoError(t, err)

		now = now.Add(3 * time.Second)
		l.Queues = nowhere{k.queues}
		_, err = l.Cancel(k.ctx, org, run.ID)
		require.NoError(t, err)
		stored, err := runstate.GetRun(k.ctx, k.store, org, run.ID, time.Now())
		require.NoError(t, err)
		assert.Equal(t, runstate.DueAt(org, run.ID, run.Tasks, now), stored.DueEntry, "%s: due at once", status)

		l.Queues = k.queues
		again, err := l.Cancel(k.ctx, org, run.ID)
		require.NoError(t, err)
		assert.Equal(t, stored.FenceAt, again.FenceAt)
		looks := k.sent(events.Runs)
		if status == engine.Queued {
			assert.Empty(t, looks, "it is over")
			continue
		}
		assert.Equal(t, []events.Run{{Kind: events.RunReconcile, Org: org, Run: run.ID}}, looks)
	}
}
