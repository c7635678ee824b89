package schedulertick

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/run/runstate"
)

const (
	// budget is how long a tick takes up entries; batchTime is for the last ones.
	// Together they are less than the function's time.
	budget    = 40 * time.Second
	batchTime = 10 * time.Second
	// parallel is how many batches are seen to at once.
	parallel = 16
	// pageSize is how many entries are read at once.
	pageSize = 100
	// again is when a run whose reconciliation was asked for is due again, should nobody
	// have reconciled it: a backlog of reconciliations must not grow with each minute.
	again = 90 * time.Second
)

// entry is a run that is due: its key, and its place in the due index.
type entry struct {
	key table.Key
	due table.DueEntry
}

// round is one tick's work.
type round struct {
	service
	now     time.Time
	limit   int
	lag     time.Duration // how long what was most overdue had been
	checked int
	batch   []entry

	time    context.Context // ends when no more is to be taken up
	end     context.CancelFunc
	batches errgroup.Group

	mu               sync.Mutex
	triggered, fails int
}

func (s service) round(ctx context.Context, now time.Time, limit int) *round {
	r := &round{service: s, now: now, limit: limit}
	r.time, r.end = context.WithTimeout(ctx, budget)
	r.batches.SetLimit(parallel)
	return r
}

// shard takes up what is due in a shard of the due index.
func (r *round) shard(ctx context.Context, shard int) error {
	if r.full() {
		return nil
	}
	due := table.Query{Index: table.Due, PK: runstate.DuePartition(shard), Range: runstate.DueUntil(r.now), Limit: min(pageSize, r.limit-r.checked)}
	for item, err := range table.All(ctx, r.table, due) {
		if err != nil {
			return err
		}
		if r.full() {
			return nil
		}
		r.checked++
		place, _ := item.Entry(table.Due)
		if at, ok := runstate.DueTime(place.SK); ok {
			r.lag = max(r.lag, r.now.Sub(at))
		}
		r.batch = append(r.batch, entry{item.Key(), table.DueEntry{DuePK: place.PK, DueSK: place.SK}})
		if len(r.batch) == queue.MaxBatch {
			r.flush(ctx)
		}
	}
	return nil
}

// full reports whether the tick takes up no more.
func (r *round) full() bool { return r.checked >= r.limit || r.time.Err() != nil }

// flush has the entries of a batch seen to.
func (r *round) flush(ctx context.Context) {
	batch := r.batch
	r.batch = nil
	if len(batch) == 0 {
		return
	}
	r.batches.Go(func() error {
		ctx, cancel := context.WithTimeout(ctx, batchTime)
		defer cancel()
		triggered := r.reconcile(ctx, batch)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.triggered += triggered
		r.fails += len(batch) - triggered
		return nil
	})
}

// wait waits for all batches and returns what came of them.
func (r *round) wait(ctx context.Context) (checked, triggered, fails int) {
	r.flush(ctx)
	_ = r.batches.Wait()
	r.end()
	return r.checked, r.triggered, r.fails
}

// reconcile asks for the reconciliation of runs, and returns of how many.
func (r *round) reconcile(ctx context.Context, batch []entry) int {
	known := batch[:0]
	var msgs []queue.Message
	for _, e := range batch {
		msg, err := message(e.key)
		if err != nil {
			r.log.ErrorContext(ctx, "due entry failed", "entry", e.key.PK, "error", err)
			continue
		}
		known, msgs = append(known, e), append(msgs, msg)
	}
	if len(known) == 0 {
		return 0
	}
	if err := r.queues.Send(ctx, events.Runs, msgs...); err != nil {
		r.log.ErrorContext(ctx, "due entries failed", "entries", len(known), "first", known[0].key.PK, "error", err)
		return 0
	}
	for _, e := range known {
		if err := r.postpone(ctx, e); err != nil { // it is reconciled twice
			r.log.WarnContext(ctx, "due entry not postponed", "entry", e.key.PK, "error", err)
		}
	}
	return len(known)
}

// message asks for the reconciliation of a run.
func message(key table.Key) (queue.Message, error) {
	org, run, ok := runstate.ParseRunKey(key.PK)
	if !ok {
		return queue.Message{}, fmt.Errorf("unknown kind of due entry %q", key.PK)
	}
	body, err := json.Marshal(events.Run{Kind: events.RunReconcile, Org: org, Run: run})
	return queue.Message{Body: body, Group: org}, err
}

// postpone moves a run's due time, unless somebody else did.
func (r *round) postpone(ctx context.Context, e entry) error {
	org, run, _ := runstate.ParseRunKey(e.key.PK)
	next := runstate.DueAt(org, run, runstate.DueTasks(e.due.DueSK), r.now.Add(again))
	_, err := r.table.Update(ctx, table.Update{
		Key: e.key,
		Do:  []table.Action{table.Set(runstate.DuePK, next.DuePK), table.Set(runstate.DueSK, next.DueSK)},
		If:  table.Eq(runstate.DueSK, e.due.DueSK), //guard:tick/moved drop
	})
	if errors.Is(err, table.ErrConditionFailed) {
		return nil
	}
	return err
}
