package bench

import (
	"context"
	"math/rand/v2"
	"runtime"
	"time"

	"millrace/shared/platform/clock"
)

// Pauses before a run on an idle server. After the longer one a machine that is
// shared with others has often lost the contents of its caches, which the rows of
// [caches] show, and then every program starts slowly.
const (
	shortRest = 3 * time.Millisecond
	rest      = 20 * time.Millisecond
)

var rests = []time.Duration{shortRest, rest}

// rested returns the name of a row that is measured after a pause.
func rested(name string, rest time.Duration) string { return name + ", idle for " + rest.String() }

const memoryRow = "the machine: 256 KB read at random"

// cacheLine is the part of the memory that a cache holds or lacks.
type cacheLine struct {
	next *cacheLine
	_    [56]byte
}

// caches measures the machine alone: how long it takes to read memory that fits
// into the caches of any processor, and was read just before the pause.
func caches(ctx context.Context, b *bench) error {
	lines := make([]cacheLine, 256<<10/64)
	order := rand.Perm(len(lines))
	for i, at := range order {
		lines[at].next = &lines[order[(i+1)%len(order)]]
	}
	read := func() time.Duration {
		begin, at := time.Now(), &lines[0]
		for range lines {
			at = at.next
		}
		runtime.KeepAlive(at) // or nothing is read
		return time.Since(begin)
	}
	for _, rest := range rests {
		var times samples
		for range 100 {
			read()
			if err := clock.Sleep(ctx, rest); err != nil {
				return err
			}
			times = append(times, read())
		}
		b.show(timed(rested(memoryRow, rest), times))
	}
	return nil
}
