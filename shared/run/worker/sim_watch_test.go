package worker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"millrace/localstack/embedded/pebbletable"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

// watched is the store of a simulation: it checks the invariants of every write
// as it is executed.
type watched struct {
	*pebbletable.Table
	s    *sim
	plan *engine.Plan

	mu      sync.Mutex
	runs    []*simRun // the runs accepted, in order
	byID    map[string]*simRun
	batches map[table.Key]string // of logs, with their run
}

// simRun is an accepted run.
type simRun struct {
	org, id  string
	parent   string
	gen      int
	began    time.Time
	ended    bool
	archived time.Time
	fault    time.Time // the last fault before that
	dirty    bool      // it was written to after its end
}

func newWatched(s *sim) *watched {
	return &watched{s: s, byID: map[string]*simRun{}, batches: map[table.Key]string{}}
}

func (w *watched) tell(format string, args ...any) { w.s.tell(format, args...) }

func (w *watched) around(keys []table.Key, do func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx := context.Background()
	before := make([]table.Item, len(keys))
	for i, k := range keys {
		before[i], _ = w.Table.Get(ctx, k)
	}
	err := do()
	for i, k := range keys {
		after, _ := w.Table.Get(ctx, k)
		w.changed(k, before[i], after)
	}
	return err
}

// Put watches a put.
func (w *watched) Put(ctx context.Context, p table.Put) error {
	return w.around([]table.Key{p.Target()}, func() error { return w.Table.Put(ctx, p) })
}

// Update watches an update.
func (w *watched) Update(ctx context.Context, u table.Update) (item table.Item, err error) {
	err = w.around([]table.Key{u.Key}, func() (err error) {
		item, err = w.Table.Update(ctx, u)
		return err
	})
	return item, err
}

// Delete watches a delete.
func (w *watched) Delete(ctx context.Context, d table.Delete) error {
	return w.around([]table.Key{d.Key}, func() error { return w.Table.Delete(ctx, d) })
}

// BatchWrite watches each of its writes.
func (w *watched) BatchWrite(ctx context.Context, writes []table.Write) error {
	return w.around(keysOf(writes), func() error { return w.Table.BatchWrite(ctx, writes) })
}

// Transact watches each of its writes.
func (w *watched) Transact(ctx context.Context, writes ...table.Write) error {
	return w.around(keysOf(writes), func() error { return w.Table.Transact(ctx, writes...) })
}

func keysOf(writes []table.Write) []table.Key {
	keys := make([]table.Key, len(writes))
	for i, w := range writes {
		keys[i] = w.Target()
	}
	return keys
}

// changed checks the invariants of one change.
func (w *watched) changed(k table.Key, before, after table.Item) {
	_, rest, of := strings.Cut(k.PK, "#run#")
	id, part, _ := strings.Cut(rest, "#")
	switch {
	case !of:
	case strings.HasPrefix(part, "log"):
		if after == nil {
			delete(w.batches, k)
		} else {
			w.batches[k] = id
		}
	case k.SK == "run":
		w.run(before, after)
	case strings.HasPrefix(part, "t"):
		w.node(k, before, after)
		if run := w.byID[id]; run != nil && run.ended {
			run.dirty = true
		}
	}
}

func status(i table.Item) engine.Status { return engine.Status(i["st"].Str()) }

func (w *watched) run(before, after table.Item) {
	if after == nil {
		if before != nil {
			w.tell("run %s was removed", before["id"].Str())
		}
		return // rejected
	}
	from, to := status(before), status(after)
	id := after["id"].Str()
	if before == nil {
		w.accepted(after)
	}
	if from != to && !slices.Contains(engine.RunTransitions[from], to) {
		w.tell("run %s went from %q to %q", id, from, to)
	}
	run := w.byID[id]
	if to.RunEnded() && !run.ended {
		run.ended, run.dirty = true, true
	}
	if run.archived.IsZero() && after[runstate.RunArchived].Bool() {
		run.archived, run.fault = time.Now(), w.s.lastFaultAt()
	}
	if !from.RunEnded() {
		return
	}
	for _, attr := range []string{runstate.RunEnded, runstate.RunError, runstate.RunFence, runstate.RunStarted, runstate.RunWorst} {
		if !same(before, after, attr) {
			w.tell("run %s is %s, and its %s changed from %v to %v", id, from, attr, before[attr], after[attr])
		}
	}
}

func (w *watched) accepted(item table.Item) {
	r := &simRun{org: item["org"].Str(), id: item["id"].Str(), parent: item["par"].Str(), began: time.Now()}
	if parent := w.byID[r.parent]; parent != nil {
		r.gen = parent.gen + 1
	}
	w.runs = append(w.runs, r)
	w.byID[r.id] = r
}

func same(a, b table.Item, attr string) bool {
	x, there := a[attr]
	y, stays := b[attr]
	return there == stays && (!there || x.Equal(y))
}

func (w *watched) node(k table.Key, before, after table.Item) {
	from, to := status(before), status(after)
	if after == nil {
		if before != nil {
			w.tell("node %v was removed", k)
		}
		return
	}
	if from != to && !slices.Contains(engine.TaskTransitions[from], to) {
		w.tell("node %v went from %q to %q", k, from, to)
	}
	if from.Terminal() {
		for _, attr := range []string{
			runstate.NodeAttempt, runstate.NodeOutput, runstate.NodeOutputRef, runstate.NodeError, runstate.NodeErrorType,
			runstate.NodeEnded, runstate.NodeWidth, runstate.NodeListHash, runstate.NodeHistory, runstate.NodeCarried, runstate.NodeLease,
		} {
			if !same(before, after, attr) {
				w.tell("node %v is %s, and its %s changed from %v to %v", k, from, attr, before[attr], after[attr])
			}
		}
	}
	if before[runstate.NodeWidth].Int() != 0 && !same(before, after, runstate.NodeWidth) {
		w.tell("the width of node %v changed from %v to %v", k, before[runstate.NodeWidth], after[runstate.NodeWidth])
	}
	if n := runstate.NodeNumber(k.SK); before == nil && int(n) >= w.plan.Static() {
		ref, _ := w.plan.Ref(n)
		task := runstate.NodeKey("", "", engine.Node(ref.Task))
		parent, err := w.Table.Get(context.Background(), table.Key{PK: k.PK[:strings.LastIndex(k.PK, "#t")] + "#t0", SK: task.SK})
		if err != nil || parent[runstate.NodeWidth].Int() == 0 {
			w.tell("node %v came before the width of its map", k)
		}
	}
	if before[runstate.NodeLost].Int() != after[runstate.NodeLost].Int() {
		w.s.lost(k, before)
	}
	w.afterwards(k, before, from, to)
}

// afterwards checks a change of an attempt against its run: after the run's end
// a running attempt may only end cancelled.
func (w *watched) afterwards(k table.Key, before table.Item, from, to engine.Status) {
	if from == to || before[runstate.NodeNonce].Str() == "" {
		return
	}
	pk := k.PK[:strings.LastIndex(k.PK, "#t")]
	run, err := w.Table.Get(context.Background(), table.Key{PK: pk, SK: "run"})
	if err != nil || !status(run).RunEnded() {
		return
	}
	// A claim may come after the end: it begins nothing, and is released.
	if to != engine.Cancelled && to != engine.Running && to != engine.Queued {
		w.tell("node %v became %s after its run was %s", k, to, status(run))
	}
}

// number formats a node for messages.
func number(run string, n engine.Node, attempt int) string {
	return fmt.Sprintf("%s node %d attempt %d", run, n, attempt)
}
