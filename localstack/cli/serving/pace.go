package serving

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Settings of the garbage collector.
const (
	idlePercent = 100       // Go's default
	maxPercent  = 400       // for a busy server
	headroom    = 96 << 20  // bytes of garbage that a busy server may hold
	busyRate    = 50        // commits a second that make a server busy
	idleSeconds = 10        // seconds below that until it is idle again
	softLimit   = 448 << 20 // bytes of memory above which garbage is collected as often as needed
)

// collector is the garbage collector that pace controls.
type collector struct {
	live    func() uint64 // bytes of live heap after the last collection
	percent func(int)
	limit   func(int64)
	free    func() // returns memory to the operating system
}

var theCollector = collector{
	live: func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	},
	percent: func(n int) { debug.SetGCPercent(n) },
	limit:   func(n int64) { debug.SetMemoryLimit(n) },
	free: func() {
		debug.FreeOSMemory()
		unmapProgram()
	},
}

// paced is the server whose load is observed.
type paced interface {
	Commits() int64 // total so far
	Release()       // frees cached memory
}

// pace makes the garbage collector run less often while the server is busy,
// when it would take a fifth of the processor time, and returns memory to the
// operating system when the server is idle again, and after the start. The
// memory limit is softLimit, so that garbage does not double the server's
// memory. It does nothing if GOGC or GOMEMLIMIT is set. It returns when ctx
// ends.
func pace(ctx context.Context, c collector, s paced) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	c.limit(softLimit)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	before, idle, set := s.Commits(), 0, idlePercent
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
			idle, want = 0, percentFor(c.live())
		} else if idle++; idle == idleSeconds {
			want = idlePercent
		}
		if want != set {
			set = want
			c.percent(set)
		}
		if idle == idleSeconds {
			s.Release()
			c.free()
		}
	}
}

// percentFor returns the garbage allowed in percent of the live heap.
func percentFor(live uint64) int {
	return int(min(max(100*headroom/max(live, 1), idlePercent), maxPercent))
}
