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
)

// The budgets of throughput and size, on two quiet cores.
const (
	loadRate   = 3000 // runs finished a second
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

// load lets clients submit runs and wait for their ends for a while, and then
// looks whether the server knows each of them as succeeded. What the server's
// processor time for a run is depends less on what else the machine does.
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

// submit has clients run flows to their ends, one after the other each, until d
// is over. It returns how many runs were made, their times, and the time until
// the last had ended.
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
				// Whether it succeeded is looked up for all runs in the end.
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

// allSucceeded is an error unless the server has that many runs, all of which
// have succeeded.
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

// wide times runs of a wide flow on a server that does nothing else.
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

// settled is how long a server that has just worked takes to be idle.
const settled = 5 * time.Second

// idle watches a server that has run some flows and has nothing to do.
func idle(ctx context.Context, b *bench) error {
	f := single()
	return b.with(ctx, func(s *server) error {
		if err := s.register(ctx, f); err != nil {
			return err
		}
		if _, _, err := s.sample(ctx, f.execute(), 0, 20); err != nil {
			return err
		}
		if err := pause(ctx, settled); err != nil {
			return err
		}
		begin := time.Now()
		before, err := s.Processor()
		if err != nil {
			return err
		}
		if err := pause(ctx, b.Idle); err != nil {
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
