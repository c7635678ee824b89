package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/localstack/embedded/datadir"
	"millrace/localstack/embedded/pebbletable"
	"millrace/localstack/embedded/store"
	"millrace/shared/audit"
	"millrace/shared/clock"
	"millrace/shared/ids"
	"millrace/shared/runstate"
	"millrace/shared/table"
)

// template is a run that has ended, of which the history is made: each run of
// it has the same items under an id of its own, so they are what the service
// itself writes.
type template struct {
	org, run string
}

// history is a data directory with many runs.
type history struct {
	dir   string
	first template
	key   string   // API key
	ids   []string // of all runs
}

// draw is the id of any run.
func (h *history) draw() string { return h.ids[rand.IntN(len(h.ids))] }

const (
	fillers   = 4  // who make items at a time; one writes
	fillBatch = 50 // runs of one write
)

// fill makes runs until there are n. They are later than those there are, a
// second apart.
func (h *history) fill(ctx context.Context, n int) (err error) {
	db, err := store.Open(datadir.Store(h.dir), store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	items := pebbletable.New(db, clock.System{})
	model, err := h.first.items(ctx, items)
	if err != nil {
		return err
	}
	last, ok := ids.Time(h.ids[len(h.ids)-1])
	if !ok {
		return fmt.Errorf("%q is no run's id", h.ids[len(h.ids)-1])
	}
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(fillers)
	for len(h.ids) < n {
		var made []string
		for range min(fillBatch, n-len(h.ids)) {
			last = last.Add(time.Second)
			made = append(made, ids.New(last))
		}
		h.ids = append(h.ids, made...)
		work.Go(func() error {
			var writes []table.Write
			for _, id := range made {
				for _, item := range model {
					writes = append(writes, table.Put{Item: h.first.as(id, item)})
				}
			}
			return items.BatchWrite(ctx, writes)
		})
		if ctx.Err() != nil {
			break
		}
	}
	return work.Wait()
}

// items are everything that the table has of the run. Errors: it is not over.
func (t template) items(ctx context.Context, store table.Table) ([]table.Item, error) {
	run, err := runstate.GetRun(ctx, store, t.org, t.run)
	if err != nil {
		return nil, err
	}
	if !run.Archived || run.DuePK != "" {
		return nil, fmt.Errorf("run %s is %s and not done with", run.ID, run.Status)
	}
	var out []table.Item
	record := runstate.RunKey(t.org, t.run)
	for _, pk := range []string{record.PK, runstate.NodePartition(t.org, t.run, 0), runstate.LogPartition(t.org, t.run)} {
		for item, err := range table.All(ctx, store, table.Query{PK: pk, Consistent: true}) {
			if err != nil {
				return nil, err
			}
			out = append(out, item)
		}
	}
	entries := table.Query{Index: table.ByList, PK: audit.ResourcePartition(t.org, "run", t.run)}
	for entry, err := range table.All(ctx, store, entries) {
		if err != nil {
			return nil, err
		}
		item, err := store.Get(ctx, entry.Key())
		if err != nil {
			return nil, err
		}
		out = append(out, item)
	}
	has := func(key table.Key) bool {
		return slices.ContainsFunc(out, func(item table.Item) bool { return item.Key() == key })
	}
	if !has(record) || !has(runstate.InputKey(t.org, t.run)) || !has(runstate.NodeKey(t.org, t.run, 0)) || !has(runstate.ArchiveKey(t.org, t.run)) || len(out) < 5 {
		return nil, fmt.Errorf("run %s has not left the items of a run: %d", t.run, len(out))
	}
	return out, nil
}

// as is an item of the run as another run would have it.
func (t template) as(id string, item table.Item) table.Item {
	at, _ := ids.Time(id)
	out := make(table.Item, len(item))
	for name, v := range item {
		if v.Kind() == table.String {
			text := strings.ReplaceAll(v.Str(), t.run, id)
			if item.Key().PK == audit.Partition(t.org) && (name == "sk" || name == "l1_sk" || name == "event_time") {
				text = clock.Format(at) + "#" + id
			}
			v = table.V(text)
		}
		out[name] = v
	}
	return out
}
