package worker_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
	"millrace/shared/run/worker"
)

// firstFail lets the first requests of a kind fail.
type firstFail struct {
	mu   sync.Mutex
	left int
}

func (l *firstFail) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left == 0 {
		return nil
	}
	l.left--
	return errFault
}

// unsent is queues whose first sends fail.
type unsent struct {
	queue.Queues
	fails *firstFail
}

func (u *unsent) Send(ctx context.Context, to string, msgs ...queue.Message) error {
	if err := u.fails.err(); err != nil {
		return err
	}
	return u.Queues.Send(ctx, to, msgs...)
}

// TestReleasedAttemptNeedsNoReconciliation checks that an attempt that cannot
// begin is in the queue again before its lease expires, even if releasing it
// fails at first. Nothing reconciles the run.
func TestReleasedAttemptNeedsNoReconciliation(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		hangs         bool // the failing read gets no response
		writes, sends int  // failing ones while the attempt is released
	}{
		"read fails":  {},
		"read hangs":  {hangs: true},
		"write fails": {writes: 3},
		"send fails":  {sends: 3},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := still(t)
				id, numbers := preparations["run"].prepare(t, w)
				var deferred atomic.Bool
				reads, writes := &firstFail{left: 1}, &firstFail{left: c.writes}
				w.process("second", func(cfg *worker.Config) {
					var claimed atomic.Bool
					inner := &unwritable{Table: w.plain, hook: func(u table.Update) {
						claimed.Store(claimed.Load() || sets(u, runstate.NodeNonce) != "")
						deferred.Store(deferred.Load() || sets(u, runstate.NodeDeferred) != "")
					}, fails: func(_ context.Context, u table.Update) error {
						if sets(u, runstate.NodeDeferred) != "" {
							return writes.err()
						}
						return nil
					}}
					broken := func(key table.Key) error {
						if key != runstate.RunKey(org, id) || !claimed.Load() {
							return nil
						}
						return reads.err()
					}
					cfg.Table = &unreadable{Table: inner, fails: func(key table.Key) error { return broken(key) }}
					if c.hangs {
						cfg.Table = &hanging{Table: inner, read: func(key table.Key) bool { return broken(key) != nil }}
					}
					cfg.Queues = &unsent{cfg.Queues, &firstFail{left: c.sends}}
				})
				for range 120 {
					if item := w.nodes(id)["b"]; item != nil && item.Status == engine.Running {
						assert.True(t, item.LeaseUntil.Time().After(time.Now()), "its lease ran out")
					}
					time.Sleep(500 * time.Millisecond)
				}
				run := w.ends(id, time.Second)
				assert.Equal(t, engine.Succeeded, run.Status)
				assert.Zero(t, w.nodes(id)["b"].Lost)
				assert.True(t, deferred.Load(), "it was given back")
				assert.Equal(t, []int{1}, *numbers)
			})
		})
	}
}

// TestReleasedWaitContinues checks that a wait does not begin again if the run
// cannot be read for a while when its time has come.
func TestReleasedWaitContinues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := still(t)
		w.register("f", nap)
		id := w.run("f").ID
		over := time.Now().Add(7200 * time.Second)
		u := &unreadable{Table: w.plain, fails: func(key table.Key) error {
			if key == runstate.RunKey(org, id) && time.Now().After(over.Add(-time.Second)) {
				return until(over.Add(20*time.Second), table.ErrThrottled)
			}
			return nil
		}}
		w.process("one", func(cfg *worker.Config) { cfg.Table = u })
		time.Sleep(7210 * time.Second)
		item := w.nodes(id)["nap"]
		assert.Equal(t, engine.Running, item.Status, "it waits")
		assert.NotEmpty(t, w.reason(item), "it was given back")
		run := w.ends(id, 2*time.Minute)
		assert.Equal(t, engine.Succeeded, run.Status)
		assert.Equal(t, 1, w.times("after"))
	})
}
