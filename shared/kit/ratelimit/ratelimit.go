// Package ratelimit hands out permits of limits that all processes of the
// service share. A process draws a slice of permits from a [Source], an item of
// the table, and spends it from memory. Few requests therefore cost a table
// write, and the item is written rarely however high the rate is: a slice is
// sized to last for [Horizon].
//
// A limit is exact except for the outstanding slices. They expire, and get
// smaller as a source runs out: a slice is at most a sixteenth of the permits
// left.
package ratelimit

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"millrace/shared/platform/clock"
)

// Sizes of slices.
const (
	Horizon = 10 * time.Second // how long a slice should last
	mostOf  = 20               // the largest slice is this fraction of the limit
	leftOf  = 16               // and this fraction of the permits left in the source
	firstOf = 1000             // the first slice is this fraction of the limit
	first   = 100              // but at most this many permits
	growth  = 4                // largest ratio of a slice to the previous one
)

// creditOf is the fraction of a limit that each process may use before it
// draws: up to twice that, at random, so that not all processes draw at once
// when a window begins. Permits used on credit are drawn with the next slice. A
// process with little traffic never draws.
const creditOf = 10_000

const (
	// blindFor is how long a process does without its source after a failure.
	blindFor = time.Second
	// most is the number of limits whose slices a process keeps.
	most = 20_000
)

// Source provides the slices of a limit.
type Source interface {
	// Draw takes want permits, or fewer if fewer are left, but at least need. A
	// slice without permits tells when to try again.
	Draw(ctx context.Context, need, want int64) (Slice, error)
}

// Slice is the result of a draw.
type Slice struct {
	Permits int64     // 0: rejected
	Left    int64     // permits left in the source
	Expires time.Time // when unused permits become void
	Again   time.Time // if rejected: when to try again
	Count   int64     // if rejected: the number of existing things
}

// Exceeded reports that a limit is used up.
type Exceeded struct {
	After time.Duration // when to try again
	Count int64         // the number of existing things
}

// Limiter holds the slices of a process. It is safe for concurrent use.
type Limiter struct {
	clock  clock.Clock
	log    *slog.Logger
	chance func(n int64) int64

	mu      sync.Mutex
	buckets *simplelru.LRU[string, *bucket]
}

// New returns a Limiter without slices. chance returns numbers from 0 to n-1
// that keep processes out of step; nil means random ones.
func New(c clock.Clock, log *slog.Logger, chance func(n int64) int64) *Limiter {
	if chance == nil {
		chance = rand.Int64N
	}
	buckets, err := simplelru.NewLRU[string, *bucket](most, nil)
	if err != nil {
		panic(err) // only for a capacity below one
	}
	return &Limiter{clock: c, log: log, chance: chance, buckets: buckets}
}

// Take takes n permits of the limit with that id, from the slice of the process
// or from a new slice of the source. It returns nil if it got them. limit is
// the number of permits of a full source, which determines the size of slices;
// with 0 there are none: each permit is drawn by itself, so that the limit is
// exact across processes, at a write for each.
// While the source fails, the process grants itself a slice every second.
// Errors: the context's, if it ends first.
func (l *Limiter) Take(ctx context.Context, id string, limit, n int64, from Source) (*Exceeded, error) {
	b := l.bucket(id, limit)
	select {
	case b.held <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-b.held }()
	now := l.clock.Now()
	if exceeded, ok := b.spend(now, n); ok {
		return exceeded, nil
	}
	want := b.want(now, limit, n, l.chance)
	slice, err := from.Draw(ctx, n, want)
	now = l.clock.Now()
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		l.log.WarnContext(ctx, "limit not drawn from, the process goes without for a moment", "limit", id, "error", err)
		b.grant(now, n, want-b.owed)
		return nil, nil
	case slice.Permits == 0:
		b.reject(n, slice)
		exceeded, _ := b.spend(now, n)
		return exceeded, nil
	}
	b.fill(now, n, slice)
	b.credit = l.credit(limit)
	return nil, nil
}

func (l *Limiter) credit(limit int64) int64 { return limit/creditOf + l.chance(limit/creditOf+1) }

func (l *Limiter) bucket(id string, limit int64) *bucket {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.buckets.Get(id)
	if !ok {
		b = &bucket{held: make(chan struct{}, 1), room: math.MaxInt64, credit: l.credit(limit)}
		l.buckets.Add(id, b)
	}
	return b
}

// bucket is the slice of a limit that a process holds.
type bucket struct {
	held    chan struct{} // semaphore that guards the other fields
	left    int64         // permits of the slice
	expires time.Time
	size    int64     // of the slice when it was drawn
	drawn   time.Time // when the slice was drawn
	owed    int64     // used on credit
	credit  int64     // maximum of owed
	room    int64     // permits left in the source, as last seen
	none    int64     // at least this many permits were rejected
	again   time.Time // until this time
	count   int64
}

// spend takes permits that are available. It returns false if a slice must be
// drawn, and an Exceeded if it is known that there are none.
func (b *bucket) spend(now time.Time, n int64) (*Exceeded, bool) {
	if !now.Before(b.expires) {
		b.left = 0
	}
	switch {
	case b.left >= n:
		b.left -= n
		return nil, true
	case now.Before(b.again) && n >= b.none:
		return &Exceeded{After: b.again.Sub(now), Count: b.count}, true
	case b.left == 0 && b.owed+n <= b.credit:
		b.owed += n
		return nil, true
	}
	return nil, false
}

// want returns how many permits to draw: as many as were recently used within
// the horizon.
func (b *bucket) want(now time.Time, limit, n int64, chance func(int64) int64) int64 {
	want := min(max(1, limit/firstOf), first)
	if b.size > 0 {
		took := max(now.Sub(b.drawn), time.Millisecond)
		used := float64(b.size-b.left) * Horizon.Seconds() / took.Seconds()
		want = int64(min(used, float64(growth*b.size)))
	}
	// Vary the size at random, so that processes do not draw in step.
	want = min(want/2+chance(want+1), limit/mostOf, b.room/leftOf)
	return max(want, 0) + n + b.owed
}

// fill adopts a slice, repays the credit from it, and spends n permits.
func (b *bucket) fill(now time.Time, n int64, s Slice) {
	b.left += s.Permits - n
	paid := min(b.owed, b.left)
	b.left -= paid
	b.owed -= paid
	b.size, b.drawn, b.expires, b.room = max(b.left, 1), now, s.Expires, s.Left
	b.again = time.Time{}
}

// grant adopts a slice without the source, to be drawn later.
func (b *bucket) grant(now time.Time, n, slice int64) {
	owed := b.owed
	b.owed = 0
	b.fill(now, n, Slice{Permits: slice, Left: b.room, Expires: now.Add(blindFor)})
	b.owed = owed + slice
}

func (b *bucket) reject(n int64, s Slice) {
	b.none, b.again, b.count, b.room, b.size = n, s.Again, s.Count, 0, 0
}
