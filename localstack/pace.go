package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// How the garbage collector is paced.
const (
	calmPercent = 100       // Go's own default
	mostPercent = 400       // of a busy server
	headroom    = 96 << 20  // bytes of garbage that a busy server may hold
	busyRate    = 50        // commits a second from which a server is busy
	calmSeconds = 10        // without that, until it is calm again
	softLimit   = 448 << 20 // bytes of memory from which on it is collected as often as it takes
)

// collector is what pace sets.
type collector struct {
	live    func() uint64 // bytes of heap in use after the last collection
	percent func(int)
	limit   func(int64)
	free    func() // gives memory back to the machine
}

var theCollector = collector{
	live: func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	},
	percent: func(n int) { debug.SetGCPercent(n) },
	limit:   func(n int64) { debug.SetMemoryLimit(n) },
	free:    debug.FreeOSMemory,
}

// paced is the server that is paced.
type paced interface {
	Commits() int64 // so far
	Release()       // lets go of what it keeps in memory to be quicker
}

// pace lets the collector run seldom while the server is busy, for then it is a
// fifth of the work, and has memory given back when it is calm again, after the
// start too. What the server holds is bounded to less than softLimit; garbage must
// not double it. Who has set GOGC or GOMEMLIMIT has paced it already. It returns
// when ctx ends.
func pace(ctx context.Context, c collector, s paced) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	c.limit(softLimit)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	before, calm, set := s.Commits(), 0, calmPercent
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := s.Commits()
		rate := now - before
		before = now
		want := set
		if rate >= busyRate {
			calm, want = 0, percentFor(c.live())
		} else if calm++; calm == calmSeconds {
			want = calmPercent
		}
		if want != set {
			set = want
			c.percent(set)
		}
		if calm == calmSeconds {
			s.Release()
			c.free()
		}
	}
}

// percentFor is the garbage in percent of what lives.
func percentFor(live uint64) int {
	return int(min(max(100*headroom/max(live, 1), calmPercent), mostPercent))
}
