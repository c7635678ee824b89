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
	"millrace/shared/account/audit"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/run/runstate"
)

// template is a run that is copied: each copy has the same items under another
// id, so they are as the service writes them.
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

// draw returns the id of a random run.
func (h *history) draw() string { return h.ids[rand.IntN(len(h.ids))] }

const (
	fillers   = 4  // goroutines that build items; one writes
	fillBatch = 50 // runs of one write
)

// fill adds finished runs until there are n. They are later than the existing
// ones, a second apart.
func (h *history) fill(ctx context.Context, n int) (err error) {
	db, err := store.Open(datadir.Store(h.dir), store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	items := pebbletable.New(db, clock.System{})
	model, err := h.first.finished(ctx, items)
	if err != nil {
		return err
	}
	last, ok := ids.Time(h.ids[len(h.ids)-1])
	if !ok {
		return fmt.Errorf("%q is no run's id", h.ids[len(h.ids)-1])
	}
	more := after(last, n-len(h.ids))
	h.ids = append(h.ids, more...)
	return multiply(ctx, items, more, func(id string) []table.Item {
		var out []table.Item
		for _, item := range model {
			out = append(out, h.first.as(id, item))
		}
		return out
	})
}

// after returns n ids, a second apart, the first later than last.
func after(last time.Time, n int) []string {
	var out []string
	for range n {
		last = last.Add(time.Second)
		out = append(out, ids.New(last))
	}
	return out
}

// multiply writes the items of each run.
func multiply(ctx context.Context, items table.Table, runs []string, of func(id string) []table.Item) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(fillers)
	for batch := range slices.Chunk(runs, fillBatch) {
		work.Go(func() error {
			var writes []table.Write
			for _, id := range batch {
				for _, item := range of(id) {
					writes = append(writes, table.Put{Item: item})
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

// finished returns the items of a finished run, and fails if it is not
// finished.
func (t template) finished(ctx context.Context, store table.Table) ([]table.Item, error) {
	run, err := runstate.GetRun(ctx, store, t.org, t.run, time.Now())
	if err != nil {
		return nil, err
	}
	if !run.Archived || run.DuePK != "" {
		return nil, fmt.Errorf("run %s is %s and not done with", run.ID, run.Status)
	}
	out, err := t.items(ctx, store, runstate.ArchiveKey(t.org, t.run))
	if err == nil && len(out) < 5 {
		err = fmt.Errorf("run %s has not left its audit entry", t.run)
	}
	return out, err
}

// items returns all items of the run in the table. It fails if the items that
// every run has, or the needed ones, are missing.
func (t template) items(ctx context.Context, store table.Table, needed ...table.Key) ([]table.Item, error) {
	var out []table.Item
	record := runstate.RunKey(t.org, t.run)
	partitions := append(runstate.LogPartitions(t.org, t.run), record.PK, runstate.NodePartition(t.org, t.run, 0))
	for _, pk := range partitions {
		for item, err := range table.All(ctx, store, table.Query{PK: pk, Consistent: true}) {
			if err != nil {
				return nil, err
			}
			out = append(out, item)
		}
	}
	for q := (audit.Query{ResourceType: "run", ResourceID: t.run, Limit: audit.MaxLimit}); ; {
		page, err := audit.List(ctx, store, t.org, q)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Items {
			item, err := table.Marshal(r)
			if err != nil {
				return nil, err
			}
			out = append(out, item)
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	needed = append(needed, record, runstate.InputKey(t.org, t.run), runstate.NodeKey(t.org, t.run, 0))
	for _, key := range needed {
		if !slices.ContainsFunc(out, func(item table.Item) bool { return item.Key() == key }) {
			return nil, fmt.Errorf("run %s has not left the items of a run: %d, and not %s", t.run, len(out), key.SK)
		}
	}
	return out, nil
}

// as returns an item of the run as that of another run.
func (t template) as(id string, item table.Item) table.Item {
	out := make(table.Item, len(item))
	for name, v := range item {
		if v.Kind() == table.String {
			v = table.V(strings.ReplaceAll(v.Str(), t.run, id))
		}
		out[name] = v
	}
	if _, audited := audit.Workspace(item.Key().PK); !audited {
		return out
	}
	var r audit.Record
	err := table.Unmarshal(out, &r)
	if err == nil {
		r.SK = id
		r.Place()
		out, err = table.Marshal(r)
	}
	if err != nil {
		panic(fmt.Sprintf("bench: audit entry %v: %v", item.Key(), err)) // it was read as one
	}
	return out
}
