package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"millrace/shared/platform/clock"
)

// Budgets of throughput and memory, on two idle cores.
const (
	loadRate   = 3000 // finished runs a second
	wideTime   = 5 * time.Second
	wideMemory = 300 << 20 // bytes resident
	idleMemory = 60 << 20  // bytes resident
	idleShare  = 0.01      // of a core
)

var (
	loadRow      = fmt.Sprintf("one-task runs, %d submitters", clients)
	loadTimeRow  = loadRow + ", a run"
	loadCPURow   = loadRow + ", server's CPU"
	wideRow      = "10,000-task fan-out and join"
	widePeakRow  = wideRow + ", server's peak memory"
	mapRow       = "map of 10,000 and its join"
	mapPeakRow   = mapRow + ", server's peak memory"
	idleRow      = "idle server, memory"
	idleShareRow = "idle server, share of a core"
)

func loadGroups() []group { return []group{{[]string{loadRow, loadTimeRow, loadCPURow}, load}} }

// load makes clients submit runs and wait for their ends for a while, and then
// checks that the server lists each of them as succeeded. The server's
// processor time per run depends less on other load of the machine.
func load(ctx context.Context, b *bench) error {
	f := single()
	return b.with(ctx, func(s *server) error {
		if err := s.register(ctx, f); err != nil {
			return err
		}
		warm, _, _, err := s.submit(ctx, f.execute(), b.Load/5)
		if err != nil {
			return err
		}
		before := s.written()
		busy, err := s.Processor()
		if err != nil {
			return err
		}
		runs, times, took, err := s.submit(ctx, f.execute(), b.Load)
		if err != nil {
			return err
		}
		bytes := (s.written() - before) / int64(max(runs, 1))
		used, err := s.Processor()
		if err != nil {
			return err
		}
		if err := s.allSucceeded(ctx, warm+runs); err != nil {
			return err
		}
		rate := float64(runs) / took.Seconds()
		r := row{name: loadRow, median: fmt.Sprintf("%.0f/s", rate), bytes: bytes}.of(b.count(acceptWork), b.count(singleWork))
		b.show(r.in(fmt.Sprintf("%d/s, none lost", loadRate), rate >= loadRate))
		b.show(timed(loadTimeRow, times))
		b.show(row{name: loadCPURow, median: span((used - busy) / time.Duration(max(runs, 1)))})
		return nil
	})
}

// submit makes clients run flows to their ends, one after the other each, for
// d. It returns the number of runs, their durations, and the time until the
// last has ended.
func (s *server) submit(ctx context.Context, body []byte, d time.Duration) (int, samples, time.Duration, error) {
	var (
		runs   atomic.Int64
		wg     sync.WaitGroup
		times  [clients]samples
		errs   [clients]error
		begin  = time.Now()
		before = begin.Add(d)
	)
	for i := range clients {
		wg.Go(func() {
			for time.Now().Before(before) {
				// The results of all runs are checked at the end.
				_, took, err := s.call(ctx, http.MethodPost, "/runs", body)
				if err != nil {
					errs[i] = err
					return
				}
				runs.Add(1)
				times[i] = append(times[i], took)
			}
		})
	}
	wg.Wait()
	took := time.Since(begin)
	var all samples
	for _, t := range times {
		all = append(all, t...)
	}
	return int(runs.Load()), all, took, errors.Join(errs[:]...)
}

// allSucceeded returns an error unless the server has want runs and all have
// succeeded.
func (s *server) allSucceeded(ctx context.Context, want int) error {
	data, _, err := s.call(ctx, http.MethodGet, "/runs", nil)
	if err != nil {
		return err
	}
	var list struct {
		Items []struct{ Status string }
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	states := map[string]int{}
	for _, run := range list.Items {
		states[run.Status]++
	}
	if len(list.Items) != want || states[succeeded] != want {
		return fmt.Errorf("%d runs were submitted, the server knows %d: %v", want, len(list.Items), states)
	}
	return nil
}

func wideGroups() []group {
	return []group{
		{[]string{wideRow, widePeakRow}, func(ctx context.Context, b *bench) error {
			return b.wide(ctx, fan(10_000), fanWork(10_000), wideRow, widePeakRow)
		}},
		{[]string{mapRow, mapPeakRow}, func(ctx context.Context, b *bench) error {
			return b.wide(ctx, mapped(10_000), mapWork(10_000), mapRow, mapPeakRow)
		}},
	}
}

// wide times runs of a wide flow on an otherwise idle server.
func (b *bench) wide(ctx context.Context, f flow, work, name, peakName string) error {
	return b.with(ctx, func(s *server) error {
		if err := s.register(ctx, f); err != nil {
			return err
		}
		times, bytes, err := s.sample(ctx, f.execute(), 0, 3)
		if err != nil {
			return err
		}
		r := timed(name, times).of(b.count(acceptWork), b.count(work))
		r.bytes = bytes
		b.show(r.in(span(wideTime), times.median() <= wideTime))
		peak, err := s.Peak()
		if err != nil {
			return err
		}
		b.show(row{name: peakName, median: size(peak)}.in(size(wideMemory), peak <= wideMemory))
		return nil
	})
}

func idleGroup() group { return group{[]string{idleRow, idleShareRow}, idle} }

// settled is how long a server takes to become idle.
const settled = 5 * time.Second

// idle observes a server that has run some flows and is idle.
func idle(ctx context.Context, b *bench) error {
	f := single()
	return b.with(ctx, func(s *server) error {
		if err := s.register(ctx, f); err != nil {
			return err
		}
		if _, _, err := s.sample(ctx, f.execute(), 0, 20); err != nil {
			return err
		}
		if err := clock.Sleep(ctx, settled); err != nil {
			return err
		}
		begin := time.Now()
		before, err := s.Processor()
		if err != nil {
			return err
		}
		if err := clock.Sleep(ctx, b.Idle); err != nil {
			return err
		}
		after, err := s.Processor()
		if err != nil {
			return err
		}
		share := (after - before).Seconds() / time.Since(begin).Seconds()
		resident, err := s.Resident()
		if err != nil {
			return err
		}
		b.show(row{name: idleRow, median: size(resident)}.in(size(idleMemory), resident <= idleMemory))
		b.show(row{name: idleShareRow, median: fmt.Sprintf("%.2f %%", 100*share)}.in(fmt.Sprintf("%.0f %%", 100*idleShare), share <= idleShare))
		return nil
	})
}
