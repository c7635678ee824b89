package bench

import (
	"context"
	"fmt"
	"math"
	"net/http"

	"millrace/localstack/proof/meter"
	"millrace/shared/platform/blob"
)

// Count is the cost of a piece of work, which is the same on every machine.
// Tables are in memory and messages are handled in batches of ten.
type Count struct {
	Work     string
	Tasks    int     // of the run; 0: not a run
	Write    float64 // write units of table and indexes
	Read     float64 // read units
	Requests int     // to the queues
	Sends    int     // requests that sent messages
	Batches  int     // requests that received messages, each of which is an invocation of a function
	Messages int     // sent
	Puts     int     // objects written
	Gets     int     // objects read
	Events   int     // published
	Calls    int     // requests to the table

	// Of Python tasks on AWS.
	Sandboxes int // invocations of sandboxes
	Posts     int // requests of sandboxes, each of which is an invocation of a function
	LogKB     int // written by functions: lines and metrics
}

func newCount(work string, tasks int, u meter.Usage) Count {
	total := u.Table.Total()
	c := Count{
		Work: work, Tasks: tasks, Write: total.Write, Read: total.Read,
		Requests: u.QueueRequests(), Sends: u.Sends, Batches: u.Receives, Messages: u.Messages, Puts: u.Puts, Gets: u.Gets, Events: u.Events,
	}
	if tasks >= Widest {
		// A page of items may cost a unit more or less: their times have more or fewer
		// digits.
		c.Read = math.Round(c.Read/50) * 50
	}
	for _, n := range u.Table.Requests {
		c.Calls += n
	}
	return c
}

// The works from which other figures are computed.
const (
	acceptWork    = "accept a run"
	acceptKeyWork = "accept a run with an idempotency key"
	singleWork    = "run of one task"
	getWork       = "GET of a run"
	logWork       = "GET of a log page"
	pageWork      = "GET of a page of 50 runs"
)

func chainWork(n int) string    { return fmt.Sprintf("chain of %d", n) }
func fanWork(n int) string      { return fmt.Sprintf("fan-out and join, %d tasks", n) }
func parallelWork(n int) string { return fmt.Sprintf("%d in parallel and a join", n) }
func mapWork(n int) string      { return fmt.Sprintf("map of %d and its join", n) }

// Sizes of the counted runs.
var (
	// The logs of chains stay below a batch: when one that is full is stored depends on
	// the scheduler.
	chains = []int{40, 100}
	widths = []int{100, 1000, Widest}
)

// Widest is the largest counted number of tasks, or instances of a map.
const Widest = 10_000

// Counts measures all counts, with runs up to the given width, on the given
// object store.
func Counts(ctx context.Context, objects blob.Store, widest int) ([]Count, error) {
	s, err := openService(ctx, platform{objects: objects})
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.close() }() // it is in memory
	t := &tally{service: s, widest: widest}
	if err := t.take(ctx); err != nil {
		return nil, err
	}
	if err := t.pythons(ctx); err != nil {
		return nil, err
	}
	if err := t.ticks(ctx, objects); err != nil {
		return nil, err
	}
	return t.counts, nil
}

type tally struct {
	*service
	widest int
	counts []Count
}

// note counts the cost of do.
func (t *tally) note(work string, tasks int, do func() error) error {
	t.meter.Reset()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", work, err)
	}
	t.counts = append(t.counts, newCount(work, tasks, t.meter.Reset()))
	return nil
}

func (t *tally) take(ctx context.Context) error {
	one := single()
	if _, err := t.warm(ctx, one); err != nil {
		return err
	}
	var id string
	err := t.note(acceptWork, 0, func() (err error) { id, err = t.accept(ctx, one); return err })
	if err != nil {
		return err
	}
	if err := t.note(singleWork, 1, func() error { return t.work(ctx) }); err != nil {
		return err
	}
	if err := t.finished(ctx, one, id); err != nil {
		return err
	}
	err = t.note(acceptKeyWork, 0, func() error { _, err := t.accept(ctx, one, "Idempotency-Key", "once"); return err })
	if err != nil {
		return err
	}
	for _, n := range chains {
		if err := t.run(ctx, chainWork(n), n, chain(n)); err != nil {
			return err
		}
	}
	if err := t.run(ctx, parallelWork(100), 101, parallel(100)); err != nil {
		return err
	}
	for _, n := range widths {
		if n > t.widest {
			continue
		}
		if err := t.run(ctx, fanWork(n), n, fan(n)); err != nil {
			return err
		}
	}
	for _, n := range widths {
		if n > t.widest {
			continue
		}
		if err := t.run(ctx, mapWork(n), n+2, mapped(n)); err != nil {
			return err
		}
	}
	return t.reads(ctx, id)
}

// warm runs a flow to fill the caches.
func (t *tally) warm(ctx context.Context, f flow) (string, error) {
	if err := t.register(ctx, f); err != nil {
		return "", err
	}
	id, err := t.accept(ctx, f)
	if err != nil {
		return "", err
	}
	if err := t.work(ctx); err != nil {
		return "", err
	}
	return id, t.finished(ctx, f, id)
}

// run counts a run of a flow from its first message to its end.
func (t *tally) run(ctx context.Context, work string, tasks int, f flow) error {
	if _, err := t.warm(ctx, f); err != nil {
		return fmt.Errorf("%s: %w", work, err)
	}
	id, err := t.accept(ctx, f)
	if err != nil {
		return fmt.Errorf("%s: %w", work, err)
	}
	if err := t.note(work, tasks, func() error { return t.work(ctx) }); err != nil {
		return err
	}
	return t.finished(ctx, f, id)
}

// reads counts the most frequent reads of a run with one task.
func (t *tally) reads(ctx context.Context, id string) error {
	one := single()
	for range 50 {
		if _, err := t.accept(ctx, one); err != nil {
			return err
		}
	}
	if err := t.work(ctx); err != nil {
		return err
	}
	for _, r := range readings(id) {
		if err := t.note(r.work, 0, func() error { _, err := t.call(ctx, http.MethodGet, r.path, nil); return err }); err != nil {
			return err
		}
	}
	return nil
}

// reading is a request whose cost should not depend on the number of runs.
type reading struct{ work, path string }

func readings(id string) []reading {
	return []reading{
		{getWork, "/runs/" + id}, {logWork, "/runs/" + id + "/logs"}, {pageWork, "/runs?limit=50"},
	}
}
