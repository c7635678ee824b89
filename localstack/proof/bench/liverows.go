package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"millrace/shared/platform/clock"
	"millrace/shared/run/worker"
)

// The runs in the data directory of the start measurement.
const (
	pastRuns = 80_000
	liveRuns = 20_000
)

// startTime is the budget of a server's start.
const startTime = time.Second

// nextReconcile is the time within which each live run is reconciled, because
// it has just begun to wait.
const nextReconcile = worker.ReconcileEvery

// calm is how long a busy server takes to return memory.
const calm = 12 * time.Second

var (
	liveHistory   = fmt.Sprintf("%s runs, %s live", thousands(pastRuns+liveRuns), thousands(liveRuns))
	liveText      = thousands(liveRuns) + " live runs"
	liveStartRow  = startupWork + ", " + liveHistory
	liveFirstRow  = "one-task run after that start, " + liveText
	liveLookedRow = "looks after that start, " + liveText
	liveMemoryRow = "server's memory at that start, " + liveText
	liveCalmRow   = "server's memory when idle, " + liveText
)

func liveGroup() group {
	return group{[]string{liveStartRow, liveFirstRow, liveLookedRow, liveMemoryRow, liveCalmRow}, live}
}

// live times the start of a server after its predecessor was killed with many
// live runs, the runs that are submitted at once, and the time until each live
// run is reconciled.
func live(ctx context.Context, b *bench) error {
	parent, err := os.MkdirTemp(b.dir, "live-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(parent)
	dir := filepath.Join(parent, "data")
	first, key, err := b.firstRun(ctx, dir)
	if err != nil {
		return fmt.Errorf("first run: %w", err)
	}
	waits, err := b.firstLive(ctx, dir)
	if err != nil {
		return fmt.Errorf("first live run: %w", err)
	}
	h := &history{dir: dir, first: first, key: key, ids: []string{first.run}}
	if err := h.fill(ctx, pastRuns); err != nil {
		return err
	}
	if err := h.fillLive(ctx, waits, liveRuns-1); err != nil {
		return err
	}
	begin := time.Now()
	s, err := b.serveOn(ctx, dir, "--log-level", "info", "--log-format", "json")
	if err != nil {
		return err
	}
	return errors.Join(b.started(ctx, s, begin), s.end(ctx))
}

// started reports a server that was started at begin and is healthy.
func (b *bench) started(ctx context.Context, s *server, begin time.Time) error {
	b.show(row{name: liveStartRow, median: span(s.Startup)}.in(span(startTime), s.Startup <= startTime))
	atStart, err := s.Resident()
	if err != nil {
		return err
	}
	times, _, err := s.sample(ctx, single().execute(), 0, 200)
	if err != nil {
		return err
	}
	at, err := s.reconciled(ctx)
	if err != nil {
		return err
	}
	if err := clock.Sleep(ctx, calm); err != nil {
		return err
	}
	idle, err := s.Resident()
	if err != nil {
		return err
	}
	b.show(timed(liveFirstRow, times))
	b.show(row{name: liveLookedRow, median: span(at.Sub(begin))})
	b.show(row{name: liveMemoryRow, median: size(atStart)}.in(size(idleMemory), atStart <= idleMemory))
	b.show(row{name: liveCalmRow, median: size(idle)}.in(size(idleMemory), idle <= idleMemory))
	return nil
}

// reconciled waits until the server has reconciled every live run, and returns
// the time.
func (s *server) reconciled(ctx context.Context) (time.Time, error) {
	for begin := time.Now(); time.Since(begin) < time.Minute; {
		for line := range strings.Lines(s.log.String()) {
			var entry struct {
				Time    time.Time `json:"time"`
				Message string    `json:"msg"`
				Runs    int       `json:"runs"`
			}
			if json.Unmarshal([]byte(line), &entry) != nil || entry.Message != "live runs reconciled" {
				continue
			}
			if entry.Runs < liveRuns {
				return entry.Time, fmt.Errorf("the server reconciled %d live runs of %d", entry.Runs, liveRuns)
			}
			return entry.Time, nil
		}
		if err := clock.Sleep(ctx, rest); err != nil {
			return time.Time{}, err
		}
	}
	return time.Time{}, fmt.Errorf("the server has not reconciled its live runs within a minute\n%s", s.log)
}
