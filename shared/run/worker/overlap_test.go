package worker_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runstate"
	"millrace/shared/run/worker"
)

// executing records which tasks are executed, and whether one ever is executed
// twice at a time.
type executing struct {
	mu    sync.Mutex
	now   map[string]int
	twice []string
}

// begin records that a task begins. The returned function records that it has
// stopped.
func (e *executing) begin(name string) (end func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.now == nil {
		e.now = map[string]int{}
	}
	if e.now[name]++; e.now[name] > 1 {
		e.twice = append(e.twice, fmt.Sprint(name, " at ", time.Now().Format("15:04:05")))
	}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.now[name]--
	}
}

// hanging is a table some of whose requests get no response until their caller
// gives up, or the driver does.
type hanging struct {
	table.Table
	most  time.Duration             // until the driver gives up; 0: it never does
	write func(u table.Update) bool // nil: none does
	read  func(key table.Key) bool
}

func (h *hanging) hang(ctx context.Context) error {
	if h.most == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(h.most):
		return errFault
	}
}

func (h *hanging) Update(ctx context.Context, u table.Update) (table.Item, error) {
	if h.write != nil && h.write(u) {
		return nil, h.hang(ctx)
	}
	return h.Table.Update(ctx, u)
}

func (h *hanging) Get(ctx context.Context, key table.Key, opts ...table.ReadOption) (table.Item, error) {
	if h.read != nil && h.read(key) {
		return nil, h.hang(ctx)
	}
	return h.Table.Get(ctx, key, opts...)
}

// TestHungRenewalStopsAttempt checks that the attempt stops before its lease
// expires, so that no other one begins while it runs.
func TestHungRenewalStopsAttempt(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"the lease", "the fence"} {
		for _, after := range []time.Duration{0, 12 * time.Second} {
			t.Run(fmt.Sprint(what, " ", after), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := still(t)
					var e executing
					began := make(chan struct{}, 10)
					w.task("a", func(ctx context.Context, _ *executor.Attempt) executor.Result {
						defer e.begin("a")()
						began <- struct{}{}
						select {
						case <-ctx.Done():
						case <-time.After(3 * time.Minute):
						}
						return ok("1")
					})
					w.register("f", spec("a"))
					id := w.run("f").ID
					var from atomic.Int64
					from.Store(math.MaxInt64)
					begun := func() bool { return time.Now().UnixNano() > from.Load() }
					h := &hanging{Table: w.plain}
					if what == "the lease" {
						h.write = func(u table.Update) bool { return begun() && renews(u) }
					} else {
						h.most = time.Minute
						h.read = func(key table.Key) bool { return begun() && key == runstate.RunKey(org, id) }
					}
					one := w.hand("one", func(cfg *worker.Config) { cfg.Table = h })
					stopped := make(chan time.Time, 1)
					go func() {
						_ = one.Handle(w.ctx, message(events.RunStart, id, 0), 1)
						stopped <- time.Now()
					}()
					<-began
					from.Store(time.Now().Add(after).UnixNano())
					other := w.hand("other")
					for range 40 { // as often as a message may be delivered
						time.Sleep(5 * time.Second)
						go func() { _ = other.Handle(w.ctx, message(events.RunTask, id, 0), 1) }()
						synctest.Wait()
					}
					<-stopped
					time.Sleep(10 * time.Minute)
					assert.Empty(t, e.twice)
					if what == "the lease" {
						assert.Len(t, began, 1, "another took over")
					} else {
						assert.Empty(t, began, "the lease was renewed")
					}
					assert.Equal(t, engine.Succeeded, w.status(id, "a"))
				})
			})
		}
	}
}

// slowRead is a table that is slow to read an item.
type slowRead struct {
	table.Table
	key  table.Key
	took time.Duration
}

func (s *slowRead) Get(ctx context.Context, key table.Key, opts ...table.ReadOption) (table.Item, error) {
	if key == s.key {
		time.Sleep(s.took)
	}
	return s.Table.Get(ctx, key, opts...)
}

// TestLeaseCountsFromClaim checks that an attempt whose lease was half over
// when its work began, and cannot be renewed, stops before the lease expires.
func TestLeaseCountsFromClaim(t *testing.T) {
	t.Parallel()
	for _, spent := range []time.Duration{6 * time.Second, 14 * time.Second, 19 * time.Second} {
		t.Run(spent.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := still(t)
				w.register("f", spec("a"))
				id := w.run("f").ID
				f := &faulty{Table: &slowRead{w.plain, runstate.InputKey(org, id), spent}}
				var stopped time.Time
				began := false
				w.task("a", func(ctx context.Context, _ *executor.Attempt) executor.Result {
					began = true
					f.arm(func(int) (bool, bool) { return true, false })
					<-ctx.Done()
					stopped = time.Now()
					return ok("1")
				})
				_ = w.hand("one", func(cfg *worker.Config) { cfg.Table = f }).Handle(w.ctx, message(events.RunTask, id, 0), 1)
				require.True(t, began)
				until := w.nodes(id)["a"].LeaseUntil.Time()
				assert.LessOrEqual(t, stopped.Sub(until), time.Duration(0), "its lease was over at %s", until)
			})
		})
	}
}

// TestTaskIsNotExecutedTwiceAtATime checks that of processes whose renewals
// hang now and then none executes a task that another live one still executes.
func TestTaskIsNotExecutedTwiceAtATime(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := still(t)
				var e executing
				tasks := []string{"t0", "t1: t0", "t2: t0", "t3: t0", "t4: t1 t2 t3"}
				for i := range tasks {
					name := fmt.Sprint("t", i)
					w.task(name, func(ctx context.Context, _ *executor.Attempt) executor.Result {
						defer e.begin(name)()
						select {
						case <-ctx.Done():
						case <-time.After(100 * time.Second):
						}
						return ok("1")
					})
				}
				w.register("f", spec(tasks...))
				id := w.run("f").ID
				for i := range 3 {
					rng := rand.New(rand.NewPCG(seed, uint64(i)))
					var mu sync.Mutex
					draw := func() bool {
						mu.Lock()
						defer mu.Unlock()
						return rng.Float64() < .02
					}
					w.process(fmt.Sprint("p", i), func(cfg *worker.Config) {
						cfg.Table = &hanging{
							Table: cfg.Table, most: time.Minute,
							write: func(u table.Update) bool { return renews(u) && draw() },
							read:  func(key table.Key) bool { return key == runstate.RunKey(org, id) && w.times("t0") > 0 && draw() },
						}
					})
				}
				w.ticking()
				w.ends(id, 3*time.Hour)
				assert.Empty(t, e.twice)
			})
		})
	}
}
