package schedulertick

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/shared/kit/due"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/run/runstate"
)

const (
	// budget is how long a tick collects entries, and batchTime how long it then
	// waits for the last batches. Together they are less than the function's
	// time-out. queryTime is the time-out of one page of a shard, for which the
	// others wait.
	budget    = 40 * time.Second
	batchTime = 10 * time.Second
	queryTime = 10 * time.Second
	// readers is the number of shards that are read concurrently, parallel the
	// number of batches that are sent concurrently.
	readers  = 16
	parallel = 64
	// pageSize is the number of entries in one read.
	pageSize = 1000
	// again is when an entry that was handed out comes up again if it was not
	// handled: a backlog must not grow every minute.
	again = 90 * time.Second
)

// round is the work of one tick.
type round struct {
	service
	limit  int
	shards []*shard

	time    context.Context // ends when no more entries are to be collected
	end     context.CancelFunc
	batches errgroup.Group

	mu                        sync.Mutex
	waiting                   map[*source][]entry // collected, less than a batch
	seen                      map[table.Key]bool  // collected items: those whose entries move meanwhile are not handed out again
	lag                       time.Duration       // age of the most overdue entry
	checked, triggered, fails int
}

// shard is a partition of a source's entries.
type shard struct {
	*source
	partition string
	start     table.Cursor
	read      bool  // its oldest entries were read
	done      bool  // it has no more entries
	err       error // from reading it
	taken     int   // entries in the last round of reads
}

func (s service) round(ctx context.Context, brought time.Time, limit int) *round {
	r := &round{service: s, limit: limit, waiting: map[*source][]entry{}, seen: map[table.Key]bool{}}
	r.time, r.end = context.WithTimeout(ctx, budget)
	r.batches.SetLimit(parallel)
	for _, src := range s.sources(brought) {
		for _, partition := range src.partitions {
			r.shards = append(r.shards, &shard{source: src, partition: partition})
		}
	}
	return r
}

// read collects due entries in turns: in each turn the shards that may have
// more share the rest of the limit. If that is less than one entry for each,
// the order of shards rotates every minute, so that none is starved. It returns
// the errors of shards that could not be read, or not in time.
func (r *round) read(ctx context.Context) (failed []error) {
	open := rotated(r.shards, int(r.clock.Now().Unix()/60)) //guard:tick/rotates arg 2 0
	for left := r.limit; left > 0 && len(open) > 0 && !r.over(); {
		asked := open[:min(len(open), left)]
		share := left / len(asked)
		var group errgroup.Group
		group.SetLimit(readers)
		for _, s := range asked {
			group.Go(func() error {
				s.err = r.take(ctx, s, share)
				return nil
			})
		}
		_ = group.Wait()
		for _, s := range asked {
			left -= s.taken
			if s.err != nil {
				r.log.ErrorContext(ctx, "due entries not read", "kind", s.name, "shard", s.partition, "error", s.err)
				failed = append(failed, fmt.Errorf("read %s: %w", s.partition, s.err))
			}
		}
		// Shards that had no turn are first in the next one.
		open = slices.DeleteFunc(slices.Concat(open[len(asked):], asked), func(s *shard) bool { return s.done || s.err != nil })
	}
	if r.over() {
		for _, s := range open {
			if !s.read {
				failed = append(failed, fmt.Errorf("read %s: %w", s.partition, errLate))
			}
		}
	}
	return failed
}

// errLate means that a tick was out of time before it read a shard.
var errLate = errors.New("no time was left")

// over reports whether the tick must collect no more.
func (r *round) over() bool { return r.time.Err() != nil }

// rotated returns a list rotated by a number of elements.
func rotated[T any](list []T, by int) []T {
	by %= len(list)
	return slices.Concat(list[by:], list[:by])
}

// take collects up to share more entries of a shard.
func (r *round) take(ctx context.Context, s *shard, share int) error {
	for s.taken = 0; s.taken < share && !s.done; {
		page, err := r.page(ctx, s, min(pageSize, share-s.taken))
		if err != nil {
			return err
		}
		s.read = true
		for _, item := range page.Items {
			if r.over() {
				return nil
			}
			position, _ := item.Entry(table.Due)
			if r.add(ctx, s.source, entry{item.Key(), table.DueEntry{DuePK: position.PK, DueSK: position.SK}}) {
				s.taken++
			}
		}
		s.start, s.done = page.Next, page.Next == ""
	}
	return nil
}

func (r *round) page(ctx context.Context, s *shard, limit int) (table.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	return r.table.Query(ctx, table.Query{
		Index: table.Due, PK: s.partition, Range: due.Until(s.now), Limit: limit, Start: s.start,
	})
}

// add collects an entry and sends a batch when it is full. It returns false if
// the item was collected before.
func (r *round) add(ctx context.Context, src *source, e entry) bool {
	r.mu.Lock()
	if r.seen[e.key] {
		r.mu.Unlock()
		return false
	}
	r.seen[e.key] = true
	if up, ok := due.Up(e.due.DueSK); ok {
		r.lag = max(r.lag, src.now.Sub(up))
	}
	r.waiting[src] = append(r.waiting[src], e)
	var batch []entry
	if len(r.waiting[src]) == queue.MaxBatch {
		batch = r.waiting[src]
		delete(r.waiting, src)
	}
	r.mu.Unlock()
	if batch != nil {
		r.flush(ctx, src, batch)
	}
	return true
}

// flush sends a batch in the background, unless the time for that is over when
// its turn comes.
func (r *round) flush(ctx context.Context, src *source, batch []entry) {
	r.batches.Go(func() error {
		if r.over() {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, batchTime)
		defer cancel()
		triggered := r.hand(ctx, src, batch)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.checked += len(batch)
		r.triggered += triggered
		r.fails += len(batch) - triggered
		return nil
	})
}

// wait waits for all batches and returns their results.
func (r *round) wait(ctx context.Context) (checked, triggered, fails int) {
	for src, batch := range r.waiting {
		r.flush(ctx, src, batch)
	}
	_ = r.batches.Wait()
	r.end()
	return r.checked, r.triggered, r.fails
}

// hand sends entries to the queue of their source and postpones them. It
// returns the number of sent entries.
func (r *round) hand(ctx context.Context, src *source, batch []entry) int {
	var known []entry
	var msgs []queue.Message
	for _, e := range batch {
		msg, err := src.message(e)
		if err != nil {
			r.log.ErrorContext(ctx, "due entry failed", "kind", src.name, "entry", e.key.PK, "error", err)
			continue
		}
		known, msgs = append(known, e), append(msgs, msg)
	}
	if len(known) == 0 {
		return 0
	}
	if err := r.queues.Send(ctx, src.queue, msgs...); err != nil {
		r.log.ErrorContext(ctx, "due entries failed", "kind", src.name, "entries", len(known), "first", known[0].key.PK, "error", err)
		return 0
	}
	for _, e := range known {
		if err := r.postpone(ctx, src, e); err != nil { // it will be handed out twice
			r.log.WarnContext(ctx, "due entry not postponed", "kind", src.name, "entry", e.key.PK, "error", err)
		}
	}
	return len(known)
}

// postpone moves an entry, unless it was moved meanwhile.
func (r *round) postpone(ctx context.Context, src *source, e entry) error {
	next, err := src.postponed(e)
	if err != nil || next == e.due {
		return err
	}
	_, err = r.table.Update(ctx, table.Update{
		Key: e.key,
		Do:  []table.Action{table.Set(runstate.DuePK, next.DuePK), table.Set(runstate.DueSK, next.DueSK)},
		If:  table.Eq(runstate.DueSK, e.due.DueSK), //guard:tick/moved drop
	})
	if errors.Is(err, table.ErrConditionFailed) {
		return nil
	}
	return err
}
