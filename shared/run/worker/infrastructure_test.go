package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
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
	"millrace/shared/run/worker"
)

// TestThrottledReadsLoseNoLease runs 200 tasks while most reads of the run's
// record, which each of them needs before it begins, are throttled.
func TestThrottledReadsLoseNoLease(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{.6, .8, .9} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u := &unreadable{}
				w := newWorld(t, func(w *world) { w.wrap = func(inner table.Table) table.Table { u.Table = inner; return u } })
				w.rt.Stop(w.ctx)
				w.start(slog.New(slog.DiscardHandler))
				w.ticking()
				var names []string
				for i := range 200 {
					names = append(names, fmt.Sprintf("c%d", i))
				}
				w.register("f", spec(names...))
				id := w.run("f").ID
				rng, calm := rand.New(rand.NewPCG(1, 2)), time.Now().Add(time.Hour)
				u.set(func(key table.Key) error {
					if key == runstate.RunKey(org, id) && rng.Float64() < rate {
						return until(calm, table.ErrThrottled)
					}
					return nil
				})
				assert.Equal(t, engine.Succeeded, w.ends(id, 3*time.Hour).Status)
				nodes := w.nodes(id)
				var lost, failed, again []string
				for _, name := range names {
					if nodes[name].Lost > 0 {
						lost = append(lost, name)
					}
					if item := nodes[name]; item.Status != engine.Succeeded {
						failed = append(failed, fmt.Sprint(name, " ", item.Status, " ", item.ErrorType))
					}
					if n := w.times(name); n != 1 {
						again = append(again, fmt.Sprintf("%s: %d", name, n))
					}
				}
				assert.Empty(t, failed)
				assert.Empty(t, lost, "no worker was lost")
				assert.Empty(t, again, "each runs once")
			})
		})
	}
}

// prepared is a run with one task waiting in the queue, for a process that has
// not read anything of the run yet.
type prepared struct {
	flow   string
	script func(*world)
	target string
	missed func(w *world, id string) string // the object that it needs, if any
	gone   bool                             // it does not begin either if the item does not exist
	// unread is what the target needs before it begins: an item or an object.
	item   func(w *world, id string) table.Key
	object string // in its key
}

const large = 20 << 10 // two of them are too large for an item

// preparations are runs by what their target reads between its claim and its
// begin.
var preparations = map[string]prepared{
	"run": {
		flow: spec("a", "b"), target: "b",
		item: func(_ *world, id string) table.Key { return runstate.RunKey(org, id) },
	},
	"input": {
		flow: spec("a", "b"), target: "b", object: "/input.json",
		item: func(_ *world, id string) table.Key { return runstate.InputKey(org, id) }, gone: true,
		missed: func(_ *world, id string) string { return runstate.Object(org, id, "input.json") },
	},
	"map": {
		flow:   with(spec("make", "each: make"), map[string]map[string]any{"each": {"map_over": "tasks.make.output"}}),
		script: makesAList, target: "each[1]",
		item: func(_ *world, id string) table.Key { return runstate.NodeKey(org, id, 1) },
	},
	"list": {
		flow:   with(spec("make", "each: make"), map[string]map[string]any{"each": {"map_over": "tasks.make.output"}}),
		script: makesAList, target: "each[1]", object: "/list/",
		missed: func(w *world, id string) string { return w.nodes(id)["each"].ListRef },
	},
	"output": {
		flow:   with(spec("make", "b: make", "c: make"), map[string]map[string]any{"c": {"condition": "size(tasks.make.output) == 2"}}),
		script: makesAList, target: "c", object: "/out/",
		missed: func(w *world, id string) string { return w.nodes(id)["make"].OutputRef },
	},
}

func makesAList(w *world) {
	element := `"` + strings.Repeat("x", large) + `"`
	w.task("make", func(context.Context, *executor.Attempt) executor.Result {
		return ok("[" + element + "," + element + "]")
	})
}

// prepare runs everything but the target, and records the numbers of the
// target's attempts that begin.
func (p prepared) prepare(t *testing.T, w *world) (id string, numbers *[]int) {
	if p.script != nil {
		p.script(w)
	}
	name, _, _ := strings.Cut(p.target, "[")
	w.register("f", p.flow)
	numbers = &[]int{}
	var mu sync.Mutex
	w.task(name, func(_ context.Context, a *executor.Attempt) executor.Result {
		mu.Lock()
		defer mu.Unlock()
		if a.MapIndex == nil || *a.MapIndex == 1 {
			*numbers = append(*numbers, a.Number)
		}
		return ok("1")
	})
	id = w.run("f", "large", `"`+strings.Repeat("x", 2*large)+`"`).ID
	got, err := w.queues.Receive(w.ctx, events.Tasks("nano"), 10, 0)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.NoError(t, w.hand("first").Handle(w.ctx, message(events.RunStart, id, 0), 1))
	require.NoError(t, w.queues.Delete(w.ctx, events.Tasks("nano"), got[0].Receipt))
	require.Empty(t, *numbers)
	require.Equal(t, engine.Pending, w.status(id, p.target))
	return id, numbers
}

// TestAttemptThatCannotBeginIsReleased lets the reads fail for a while that an
// attempt needs after its claim. It waits in the queue, not under a lease, and
// then begins with the same number.
func TestAttemptThatCannotBeginIsReleased(t *testing.T) {
	t.Parallel()
	for what, p := range preparations {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := still(t)
				id, numbers := p.prepare(t, w)
				const outage = 3 * time.Minute
				calm := time.Now().Add(outage)
				u, o := &unreadable{Table: w.plain}, &objects{Store: w.blob}
				if p.item != nil {
					key := p.item(w, id)
					u.set(func(k table.Key) error {
						if k == key {
							return until(calm, table.ErrThrottled)
						}
						return nil
					})
				} else {
					o.set(func(key string) error {
						if strings.Contains(key, p.object) {
							return until(calm, errDown)
						}
						return nil
					})
				}
				w.process("second", func(cfg *worker.Config) { cfg.Table, cfg.Blob = u, o })
				w.ticking()
				for range 5 {
					time.Sleep(20 * time.Second)
					item := w.nodes(id)[p.target]
					require.NotNil(t, item)
					assert.Equal(t, engine.Queued, item.Status)
					assert.Equal(t, 1, item.Attempt)
					assert.Zero(t, item.LeaseUntil, "others may claim it")
					assert.NotZero(t, item.Due)
					assert.NotEmpty(t, w.reason(item), "readers see why it waits")
				}
				run := w.ends(id, outage+3*time.Minute)
				assert.Equal(t, engine.Succeeded, run.Status)
				item := w.nodes(id)[p.target]
				assert.Zero(t, item.Lost)
				assert.Equal(t, 1, item.Attempt)
				assert.Empty(t, item.History)
				assert.Equal(t, []int{1}, *numbers, "it began once, as the first attempt")
				began := 0
				for _, e := range w.archived(id) {
					if e == p.target+" "+runlog.TypeTaskStarted {
						began++
					}
				}
				assert.Equal(t, 1, began, "it is logged once")
			})
		})
	}
}

// reason returns the text in an item that is not its lease, its chain or its
// output.
func (w *world) reason(n *runstate.Node) string {
	item, err := w.plain.Get(w.ctx, n.Key, table.Consistent)
	require.NoError(w.t, err)
	for name, v := range item {
		switch name {
		case "pk", "sk", runstate.NodeStatus, runstate.NodeChain, runstate.NodeNonce, runstate.NodeOutput, runstate.NodeOutputRef:
		default:
			if v.Kind() == table.String && v.Str() != "" {
				return v.Str()
			}
		}
	}
	return ""
}

// TestMissingItemFailsTask checks that the task fails at once.
func TestMissingItemFailsTask(t *testing.T) {
	t.Parallel()
	for what, p := range preparations {
		if !p.gone {
			continue
		}
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := still(t)
				id, numbers := p.prepare(t, w)
				require.NoError(t, w.plain.Delete(w.ctx, table.Delete{Key: p.item(w, id)}))
				w.process("second")
				run := w.ends(id, 10*time.Second)
				assert.Equal(t, engine.Failed, run.Status)
				item := w.nodes(id)[p.target]
				assert.Equal(t, engine.Failed, item.Status)
				assert.Equal(t, executor.StorageFailed, item.ErrorType)
				assert.Contains(t, item.Error, "gone from the table")
				assert.Zero(t, item.Lost)
				assert.Empty(t, *numbers)
			})
		})
	}
}

// TestMissingObjectFailsTask checks that the task fails at once, because
// waiting does not help.
func TestMissingObjectFailsTask(t *testing.T) {
	t.Parallel()
	for what, p := range preparations {
		if p.missed == nil {
			continue
		}
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := still(t)
				id, numbers := p.prepare(t, w)
				key := p.missed(w, id)
				require.NotEmpty(t, key)
				require.NoError(t, w.blob.Delete(w.ctx, key))
				w.process("second")
				run := w.ends(id, 10*time.Second)
				assert.Equal(t, engine.Failed, run.Status)
				item := w.nodes(id)[p.target]
				assert.Equal(t, engine.Failed, item.Status)
				assert.Contains(t, item.Error, strings.TrimPrefix(key, runstate.Object(org, id, "")))
				assert.NotEqual(t, executor.WorkerLost, item.ErrorType)
				assert.Zero(t, item.Lost)
				assert.Empty(t, *numbers)
			})
		})
	}
}
