package runtime_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/runtime"
	"millrace/localstack/embedded/share"
	"millrace/localstack/proof/memory"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/web/fn"
)

// napping is a runtime with 18 workers whose handler takes ten seconds, or the
// duration in the message's body.
type napping struct {
	*runtime.Runtime
	queues queue.Queues

	mu      sync.Mutex
	running map[string]int // by workspace
	ended   map[string]int
}

// plain hides that the driver supports sharing.
type plain struct{ queue.Queues }

func nap(t *testing.T, driver func(queue.Queues) queue.Queues) *napping {
	n := &napping{running: map[string]int{}, ended: map[string]int{}}
	n.queues = driver(memory.Queues(t, clock.System{}, []queue.Definition{{Name: "q", Visibility: time.Hour}}))
	specs := []fn.Spec{{
		Name: "napper", Trigger: fn.Trigger{Queues: []fn.QueueTrigger{{Queue: "q", Batch: 10}}},
		Messages: func(fn.Deps) fn.MessageHandler {
			return func(_ context.Context, e lambda.SQSEvent) (lambda.SQSEventResponse, error) {
				m := e.Records[0]
				n.count(m.Attributes["MessageGroupId"], 1)
				assert.Equal(t, "1", m.Attributes["ApproximateReceiveCount"])
				if m.Body == `"quick"` {
					time.Sleep(time.Millisecond)
				} else {
					time.Sleep(10 * time.Second)
				}
				n.count(m.Attributes["MessageGroupId"], -1)
				return lambda.SQSEventResponse{}, nil
			}
		},
	}}
	var err error
	n.Runtime, err = runtime.New(runtime.Config{Specs: specs, Deps: fn.Deps{Queues: n.queues, Log: slog.New(slog.DiscardHandler)}, Workers: 18})
	require.NoError(t, err)
	n.Start(specs, false)
	return n
}

func (n *napping) count(workspace string, by int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running[workspace] += by
	if by < 0 {
		n.ended[workspace]++
	}
}

func (n *napping) state() (running, ended map[string]int) {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	return map[string]int{"a": n.running["a"], "b": n.running["b"], "c": n.running["c"]},
		map[string]int{"a": n.ended["a"], "b": n.ended["b"], "c": n.ended["c"]}
}

func (n *napping) send(t *testing.T, workspace string, count int, body string) {
	t.Helper()
	for range count {
		require.NoError(t, n.queues.Send(t.Context(), "q", queue.Message{Body: []byte(body), Group: workspace}))
	}
}

type counts = map[string]int

// TestWorkspacesShareWorkers lets one workspace take all workers it can get.
// Messages of the next one are still handled at once, and freed workers go to
// the workspace with the fewest.
func TestWorkspacesShareWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := nap(t, func(q queue.Queues) queue.Queues { return q })
		defer n.Stop(t.Context())
		n.send(t, "a", 60, `"slow"`)
		running, _ := n.state()
		require.Equal(t, counts{"a": 16, "b": 0, "c": 0}, running)
		assert.Equal(t, "It waits for a worker: 16 of the 18 that run tasks of its mode are this workspace's, the rest is for others.", n.Waiting("q", "a"))
		assert.Empty(t, n.Waiting("q", "b"))
		assert.Empty(t, n.Waiting("unknown", "a"))
		stats, err := n.queues.Stats(t.Context(), "q")
		require.NoError(t, err)
		assert.Equal(t, 16, stats.InFlight, "what has no worker stays in the queue")

		for range 100 { // one after the other
			n.send(t, "b", 1, `"quick"`)
			time.Sleep(2 * time.Millisecond)
		}
		_, ended := n.state()
		require.Equal(t, counts{"a": 0, "b": 100, "c": 0}, ended, "in 0.2 seconds")

		n.send(t, "b", 60, `"slow"`)
		running, _ = n.state()
		require.Equal(t, counts{"a": 16, "b": 1, "c": 0}, running, "the last is for who has none")
		n.send(t, "c", 1, `"quick"`)
		time.Sleep(2 * time.Millisecond)
		_, ended = n.state()
		require.Equal(t, 1, ended["c"])

		time.Sleep(10 * time.Second) // all of the first workspace's have ended
		running, _ = n.state()
		assert.InDelta(t, running["a"], running["b"], 1)
		assert.GreaterOrEqual(t, running["a"]+running["b"], share.Alone(18))
		n.send(t, "c", 1, `"quick"`)
		time.Sleep(2 * time.Millisecond)
		_, ended = n.state()
		assert.Equal(t, 2, ended["c"])

		time.Sleep(time.Hour)
		running, ended = n.state()
		assert.Equal(t, counts{"a": 0, "b": 0, "c": 0}, running)
		assert.Equal(t, counts{"a": 60, "b": 160, "c": 2}, ended)
	})
}

// TestParkedHandlersReleaseTheirShare checks that a workspace proceeds while
// some of its handlers wait for something else.
func TestParkedHandlersReleaseTheirShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := park(t)
		defer p.Stop(t.Context())
		p.send(t, 100, `"wait"`)
		synctest.Wait()
		require.Equal(t, int64(100), p.waiting.Load())
		assert.Empty(t, p.Waiting("q", "g"))
		close(p.open)
		synctest.Wait()
		assert.NotEmpty(t, p.Waiting("q", "g"))
		began := time.Now()
		require.NoError(t, p.queues.Send(t.Context(), "q", queue.Message{Body: []byte(`"go"`), Group: "other"}))
		synctest.Wait()
		assert.Equal(t, int64(1), p.plain.Load())
		assert.Zero(t, time.Since(began), "whoever goes on takes its own workspace's slots")
	})
}

// TestQueuesWithoutSharingUseAllWorkers covers drivers that choose messages
// themselves.
func TestQueuesWithoutSharingUseAllWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := nap(t, func(q queue.Queues) queue.Queues { return plain{q} })
		defer n.Stop(t.Context())
		n.send(t, "a", 60, `"slow"`)
		running, _ := n.state()
		require.Equal(t, counts{"a": 18, "b": 0, "c": 0}, running)
		time.Sleep(11 * time.Second)
		running, ended := n.state()
		assert.Equal(t, 18, running["a"])
		assert.Equal(t, 18, ended["a"])
	})
}
