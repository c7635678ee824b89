package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/localstack/embedded/pebbletable"
	"millrace/localstack/embedded/store"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
)

const (
	writtenRuns = 1 << 20 // writes are spread over their keys
	itemSize    = 600     // bytes
	syncShare   = 3       // divisor of the time for writes that wait for the disk
)

// writing is a timed way of writing to a table.
type writing struct {
	writers int
	sync    bool
}

func (w writing) row() string {
	name := fmt.Sprintf("table write during compactions, %d writer", w.writers)
	if w.writers > 1 {
		name += "s"
	}
	if w.sync {
		name += ", full sync"
	}
	return name
}

func writeGroups() []group {
	var out []group
	for _, sync := range []bool{false, true} {
		of := []writing{{1, sync}, {clients, sync}}
		out = append(out, group{[]string{of[0].row(), of[1].row()}, func(_ context.Context, b *bench) error {
			return b.writes(of)
		}})
	}
	return out
}

// writes times writes to one store on disk, including its flushes and
// compactions.
func (b *bench) writes(of []writing) (err error) {
	dir, err := os.MkdirTemp(b.dir, "writes-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	db, err := store.Open(dir, store.Options{FullSync: of[0].sync, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	items := pebbletable.New(db, clock.System{})
	for _, w := range of {
		d := b.Writes
		if w.sync {
			d /= syncShare
		}
		flushes, compactions := db.Compactions()
		times, err := write(items, w.writers, time.Now().Add(d))
		if err != nil {
			return err
		}
		f, c := db.Compactions()
		r := timed(w.row(), times)
		r.budget = fmt.Sprintf("%s writes, %d flushes, %d compactions", thousands(len(times)), f-flushes, c-compactions)
		b.show(r)
	}
	return nil
}

// write makes writers put pairs of items until the time is over.
func write(items table.Table, writers int, until time.Time) (samples, error) {
	times := make([]samples, writers)
	var work errgroup.Group
	for i := range writers {
		work.Go(func() error {
			for time.Now().Before(until) {
				a, b := pair(rand.IntN(writtenRuns))
				begin := time.Now()
				if err := items.Transact(context.Background(), a, b); err != nil {
					return err
				}
				times[i] = append(times[i], time.Since(begin))
			}
			return nil
		})
	}
	err := work.Wait()
	return slices.Concat(times...), err
}

// pair returns writes of two items of a run.
func pair(run int) (a, b table.Put) {
	item := func(task string) table.Put {
		pk := fmt.Sprintf("acme#run#%026d#t0", run)
		return table.Put{Item: table.Item{
			"pk": table.V(pk), "sk": table.V(task), "st": table.V("RUNNING"), "at": table.V(1),
			"out": table.V(strings.Repeat("x", itemSize-len(pk)-len(task)-20)),
		}}
	}
	return item("000000000"), item("000000001")
}
