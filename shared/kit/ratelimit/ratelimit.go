// Package ratelimit hands out the permits of limits that all processes of the
// service share. A process draws a slice of permits from a [Source], an item of
// the table, and spends it from its memory, so that what is limited pays for a
// write of the table once in many times, and the item is written seldom however
// much is asked for: a slice is made to last for [Horizon].
//
// A limit holds to within the slices that are outstanding. They expire, and
// shrink as a source runs dry: a slice is at most a sixteenth of what is left.
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

// The sizes of slices.
const (
	Horizon = 10 * time.Second // how long a slice is to last
	mostOf  = 20               // the largest slice is this part of the limit
	leftOf  = 16               // and this part of what is left in the source
	firstOf = 1000             // the first slice is this part of the limit
	first   = 100              // permits of the first slice at most
	growth  = 4                // how much larger than the last a slice may be
)

// creditOf is which part of a limit each process may use before it draws: twice
// that at most, by chance, so that not all draw at once when a window begins. What
// is used on credit is drawn with the next slice. A process that does little
// never draws.
const creditOf = 10_000

const (
	// blindFor is how long a process goes without its source when that has failed.
	blindFor = time.Second
	// most is how many limits a process keeps slices of.
	most = 20_000
)

// Source is where the slices of a limit come from.
type Source interface {
	// Draw takes want permits, or fewer if there are not as many, at least need.
	// Without permits the slice tells when to ask again.
	Draw(ctx context.Context, need, want int64) (Slice, error)
}

// Slice is what a draw came to.
type Slice struct {
	Permits int64     // 0: refused
	Left    int64     // permits left in the source
	Expires time.Time // when what is unused becomes void
	Again   time.Time // of a refusal: when to ask again
	Count   int64     // of a refusal: how much there is of what is limited
}

// Refusal says that a limit is used up.
type Refusal struct {
	After time.Duration // when it is worth to ask again
	Count int64         // how much there is of what is limited
}

// Limiter keeps the slices of a process. It is safe for concurrent use.
type Limiter struct {
	clock  clock.Clock
	log    *slog.Logger
	chance func(n int64) int64

	mu      sync.Mutex
	buckets *simplelru.LRU[string, *bucket]
}

// New makes a Limiter without slices. chance draws the numbers from 0 to n-1 by
// which processes do not keep in step; nil: at random.
func New(c clock.Clock, log *slog.Logger, chance func(n int64) int64) *Limiter {
	if chance == nil {
		chance = rand.Int64N
	}
	buckets, err := simplelru.NewLRU[string, *bucket](most, nil)
	if err != nil {
		panic(err) // a number of entries below one
	}
	return &Limiter{clock: c, log: log, chance: chance, buckets: buckets}
}

// Take takes n permits of the limit with that id, from the slice of the process
// or from a new one of the source. It returns nil if it got them. The limit is
// how many permits the source has when it is full: it sizes the slices. While
// the source fails the process grants itself a slice a second. Errors: the
// context's, if it ends first.
func (l *Limiter) Take(ctx context.Context, id string, limit, n int64, from Source) (*Refusal, error) {
	b := l.bucket(id, limit)
	select {
	case b.held <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-b.held }()
	now := l.clock.Now()
	if refused, ok := b.spend(now, n); ok {
		return refused, nil
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
		b.refuse(n, slice)
		refused, _ := b.spend(now, n)
		return refused, nil
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

// bucket is the slice of a limit that a process has.
type bucket struct {
	held    chan struct{} // has a value while somebody uses the rest
	left    int64         // permits of the slice
	expires time.Time
	size    int64     // of the slice when it was drawn
	drawn   time.Time // when that was
	owed    int64     // used on credit
	credit  int64     // of which there is so much
	room    int64     // in the source, as last seen
	none    int64     // at least so many permits were refused
	again   time.Time // until then
	count   int64
}

// spend takes permits that are at hand. It returns false if a slice is to be
// drawn, and a refusal if there are known to be none.
func (b *bucket) spend(now time.Time, n int64) (*Refusal, bool) {
	if !now.Before(b.expires) {
		b.left = 0
	}
	switch {
	case b.left >= n:
		b.left -= n
		return nil, true
	case now.Before(b.again) && n >= b.none:
		return &Refusal{After: b.again.Sub(now), Count: b.count}, true
	case b.left == 0 && b.owed+n <= b.credit:
		b.owed += n
		return nil, true
	}
	return nil, false
}

// want is how many permits to draw: as many as were used up of late within the
// horizon.
func (b *bucket) want(now time.Time, limit, n int64, chance func(int64) int64) int64 {
	want := min(max(1, limit/firstOf), first)
	if b.size > 0 {
		took := max(now.Sub(b.drawn), time.Millisecond)
		used := float64(b.size-b.left) * Horizon.Seconds() / took.Seconds()
		want = int64(min(used, float64(growth*b.size)))
	}
	// By chance more or less, so that processes do not keep in step.
	want = min(want/2+chance(want+1), limit/mostOf, b.room/leftOf)
	return max(want, 0) + n + b.owed
}

// fill takes up a slice, pays with it what was used on credit, and spends n of it.
func (b *bucket) fill(now time.Time, n int64, s Slice) {
	b.left += s.Permits - n
	paid := min(b.owed, b.left)
	b.left -= paid
	b.owed -= paid
	b.size, b.drawn, b.expires, b.room = max(b.left, 1), now, s.Expires, s.Left
	b.again = time.Time{}
}

// grant takes up a slice that the source does not know of: it is drawn later.
func (b *bucket) grant(now time.Time, n, slice int64) {
	owed := b.owed
	b.owed = 0
	b.fill(now, n, Slice{Permits: slice, Left: b.room, Expires: now.Add(blindFor)})
	b.owed = owed + slice
}

func (b *bucket) refuse(n int64, s Slice) {
	b.none, b.again, b.count, b.room, b.size = n, s.Again, s.Count, 0, 0
}
