package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"millrace/localstack/embedded/datadir"
	"millrace/localstack/embedded/pebbletable"
	"millrace/localstack/embedded/store"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
)

// flatFactor and flatSlack define by how much a read may take longer for a long
// history than for the shortest and still count as flat.
const (
	flatFactor = 1.5
	flatSlack  = 200 * time.Microsecond
)

// Further figures of a server with a history.
const (
	startupWork = "server's start"
	memoryWork  = "server's memory"
)

// asked is how often each read is timed.
const asked = 300

func historyRow(work string, runs int) string {
	return fmt.Sprintf("%s, %s runs", work, thousands(runs))
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

func historyGroup(sizes []int) group {
	sizes = slices.Sorted(slices.Values(sizes))
	var rows []string
	for _, n := range sizes {
		for _, r := range readings("") {
			rows = append(rows, historyRow(r.work, n))
		}
		rows = append(rows, historyRow(startupWork, n), historyRow(memoryWork, n))
	}
	return group{rows, func(ctx context.Context, b *bench) error { return b.history(ctx, slices.Compact(sizes)) }}
}

// history grows the store to each size in turn, and times and counts reads over
// HTTP.
func (b *bench) history(ctx context.Context, sizes []int) error {
	parent, err := os.MkdirTemp(b.dir, "history-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(parent)
	dir := filepath.Join(parent, "data")
	first, key, err := b.firstRun(ctx, dir)
	if err != nil {
		return fmt.Errorf("first run: %w", err)
	}
	h := &history{dir: dir, first: first, key: key, ids: []string{first.run}}
	smallest := map[string]time.Duration{}
	for _, n := range sizes {
		begin := time.Now()
		if err := h.fill(ctx, n); err != nil {
			return fmt.Errorf("fill to %d runs: %w", n, err)
		}
		took := time.Since(begin)
		times, more, err := b.readTimes(ctx, h, n)
		if err != nil {
			return err
		}
		counts, err := b.readCounts(ctx, h)
		if err != nil {
			return err
		}
		b.compare(counts)
		for i, r := range readings("") {
			median := times[r.work].median()
			base, other := smallest[r.work]
			if !other {
				smallest[r.work] = median
			}
			line := timed(historyRow(r.work, n), times[r.work]).of(&counts[i])
			line.budget = "flat"
			if other {
				line = line.in("flat", float64(median) <= flatFactor*float64(base)+float64(flatSlack))
			}
			b.show(line)
		}
		for _, r := range more {
			b.show(r)
		}
		if took > 30*time.Second {
			fmt.Fprintf(b.Out, "filled to %s runs in %v\n", thousands(n), took.Round(time.Second))
		}
	}
	return nil
}

// firstRun makes a run over the API in a new data directory, and waits until no
// work is left for it.
func (b *bench) firstRun(ctx context.Context, dir string) (template, string, error) {
	s, err := b.serveOn(ctx, dir)
	if err != nil {
		return template{}, "", err
	}
	f := single()
	var id string
	err = func() error {
		if err := s.register(ctx, f); err != nil {
			return err
		}
		if id, _, err = s.execute(ctx, f.execute()); err != nil {
			return err
		}
		for {
			data, _, err := s.call(ctx, http.MethodGet, "/runs/"+id+"/logs", nil)
			if err != nil {
				return err
			}
			var page struct{ Source string }
			if err := json.Unmarshal(data, &page); err != nil {
				return err
			}
			if page.Source == "archive" {
				return nil
			}
			if err := clock.Sleep(ctx, rest); err != nil {
				return err
			}
		}
	}()
	org, key := s.Credentials.OrgID, s.Credentials.APIKey
	if ended := s.end(ctx); err == nil {
		err = ended // the server has stopped
	}
	return template{org: org, run: id}, key, err
}

// readTimes times reads on a server with n runs, of random runs; more are
// further figures of the server.
func (b *bench) readTimes(ctx context.Context, h *history, n int) (out map[string]samples, more []row, err error) {
	s, err := b.serveOn(ctx, h.dir)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if ended := s.end(ctx); err == nil {
			err = ended
		}
	}()
	out = map[string]samples{}
	for i := range asked + asked/3 {
		for _, r := range readings(h.draw()) {
			_, took, err := s.call(ctx, http.MethodGet, r.path, nil)
			if err != nil {
				return nil, nil, err
			}
			if i >= asked/3 {
				out[r.work] = append(out[r.work], took)
			}
		}
	}
	resident, err := s.Resident()
	if err != nil {
		return nil, nil, err
	}
	return out, []row{
		{name: historyRow(startupWork, n), median: span(s.Startup)},
		{name: historyRow(memoryWork, n), median: size(resident)},
	}, nil
}

// readCounts counts the cost of the same reads.
func (b *bench) readCounts(ctx context.Context, h *history) (counts []Count, err error) {
	db, err := store.Open(datadir.Store(h.dir), store.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer func() {
		if closed := db.Close(); err == nil {
			err = closed
		}
	}()
	items := pebbletable.New(db, clock.System{})
	err = b.withObjects(ctx, func(objects blob.Store) error {
		s, err := openService(ctx, platform{table: items, objects: objects, key: h.key})
		if err != nil {
			return err
		}
		defer func() { _ = s.close() }() // it is in memory
		t := &tally{service: s}
		for range 2 { // the first time fills the caches
			t.counts = nil
			for _, r := range readings(h.draw()) {
				if err := t.note(r.work, 0, func() error { _, err := t.call(ctx, http.MethodGet, r.path, nil); return err }); err != nil {
					return err
				}
			}
		}
		counts = t.counts
		return nil
	})
	return counts, err
}
