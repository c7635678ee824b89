package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runstate"
	"millrace/shared/run/worker"
)

// placed runs scripted tasks, a limited number at a time. An attempt for which
// no slot was reserved takes one itself.
type placed struct {
	scripted
	places chan struct{}

	mu       sync.Mutex
	reserved int // slots whose attempt has not come yet
}

// Reserve waits for a slot.
func (p *placed) Reserve(ctx context.Context, _ string) (release func(), err error) {
	select {
	case p.places <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reserved++
	return sync.OnceFunc(func() { <-p.places }), nil
}

func (p *placed) Execute(ctx context.Context, a *executor.Attempt) executor.Result {
	p.mu.Lock()
	mine := p.reserved > 0
	if mine {
		p.reserved--
	}
	p.mu.Unlock()
	if !mine {
		select {
		case p.places <- struct{}{}:
			defer func() { <-p.places }()
		case <-ctx.Done():
			return executor.Failed(executor.TaskTimeout, "no slot within its timeout")
		}
	}
	return p.scripted.Execute(ctx, a)
}

// places returns a world with n slots for Python tasks.
func places(t *testing.T, n int, opts ...option) (*world, *placed) {
	w := still(t, opts...)
	p := &placed{scripted: scripted{w}, places: make(chan struct{}, n)}
	cfg := w.c.Config
	cfg.Executors = executor.Set{"python": p, "transform": executor.Transform{}}
	cfg.Log = slog.New(slog.DiscardHandler)
	w.c = worker.New(cfg)
	w.serve()
	w.ticking()
	return w, p
}

// lasting scripts a task by its duration.
func (w *world) lasting(name string, takes time.Duration) {
	w.task(name, func(ctx context.Context, _ *executor.Attempt) executor.Result {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
		}
		return ok("1")
	})
}

// TestWaitForSlotDoesNotCountAsTaskTime runs eight tasks of 4 s with a timeout
// of 10 s on two slots.
func TestWaitForSlotDoesNotCountAsTaskTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := places(t, 2)
		w.lasting("each", 4*time.Second)
		w.register("f", with(spec("each"), map[string]map[string]any{"each": {"map_over": "lists.range(8)", "timeout_secs": 10}}))
		run := w.ends(w.run("f").ID, 30*time.Second)
		assert.Equal(t, engine.Succeeded, run.Status)
		assert.Equal(t, 8, w.times("each"))
		for name, item := range w.nodes(run.ID) {
			assert.Equal(t, engine.Succeeded, item.Status, name)
			if name != "each" {
				assert.InDelta(t, 4, item.EndedAt.Time().Sub(item.StartedAt.Time()).Seconds(), .5, "%s: the wait is no part of its duration", name)
			}
		}
		assert.Empty(t, p.places, "all slots were released")
	})
}

// TestSlotIsReleasedBeforeResultIsStored lets the write of a result fail.
func TestSlotIsReleasedBeforeResultIsStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := places(t, 1, func(w *world) { w.blob = &objects{Store: w.blob} })
		const outage = 2 * time.Minute
		calm := time.Now().Add(outage)
		w.blob.(*objects).set(func(key string) error {
			if strings.Contains(key, "/out/") {
				return until(calm, errDown)
			}
			return nil
		})
		w.task("first", func(context.Context, *executor.Attempt) executor.Result {
			return ok(`"` + strings.Repeat("x", 2*large) + `"`)
		})
		w.register("f", spec("first"))
		first := w.run("f").ID
		synctest.Wait()
		require.Equal(t, 1, w.times("first"))
		w.register("g", spec("second"))
		assert.Equal(t, engine.Succeeded, w.ends(w.run("g").ID, 10*time.Second).Status)
		assert.Equal(t, engine.Running, w.status(first, "first"))
		assert.Equal(t, engine.Succeeded, w.ends(first, outage+2*time.Minute).Status)
		assert.Equal(t, 1, w.times("first"))
		assert.Empty(t, p.places)
	})
}

// TestWaitForSlotBlocksNoOther checks that while 64 tasks wait for a slot, a
// run that needs none is executed at once, and that waiting tasks have no lease
// and can be cancelled.
func TestWaitForSlotBlocksNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := places(t, 2)
		var tasks []string
		for i := range 66 {
			tasks = append(tasks, fmt.Sprintf("p%d", i))
			w.lasting(tasks[i], 9*time.Minute)
		}
		w.register("wide", spec(tasks...))
		wide := w.run("wide").ID
		time.Sleep(5 * time.Second)
		w.register("t", `{"tasks":[{"name":"sum","type":"transform","config":{"expression":"1 + 1"}}]}`)
		other := w.run("t").ID
		assert.Equal(t, engine.Succeeded, w.ends(other, time.Second).Status)
		run := w.get(other)
		assert.LessOrEqual(t, run.Duration(), int64(1000))

		leases := 0
		for _, item := range w.nodes(wide) {
			if item.LeaseUntil != 0 {
				leases++
			}
		}
		assert.Equal(t, 2, leases, "waiting tasks are not claimed")
		_, err := w.launch.Cancel(w.ctx, org, wide)
		require.NoError(t, err)
		assert.Equal(t, engine.Cancelled, w.ends(wide, 30*time.Second).Status)
		time.Sleep(30 * time.Second) // waiting ones notice it by then
		assert.Empty(t, p.places)
		began := 0
		for _, name := range tasks {
			began += w.times(name)
		}
		assert.Equal(t, 2, began)
		item, err := runstate.LoadNode(w.ctx, w.plain, org, wide, 65)
		require.NoError(t, err)
		if item != nil {
			assert.NotEqual(t, engine.Running, item.Status)
		}
	})
}
