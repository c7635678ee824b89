package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
)

// Recent is a small limit for any stretch of time, such as wrong codes in the
// last five minutes. It is exact, however many processes share it: its item
// holds the times of all permits, a sliding window log. It is for limits of up
// to about a hundred permits that are rarely taken.
type Recent struct {
	Table table.Table
	Clock clock.Clock
	Key   table.Key
	Limit int
	Per   time.Duration
}

// recent is the item of a Recent. Each change replaces it as a whole.
type recent struct {
	table.Key
	Times    []int64 `table:"times"` // Unix milliseconds, oldest first
	Revision int64   `table:"revision"`
	TTL      int64   `table:"ttl"`
}

// Take takes a permit, unless Limit permits were taken within Per; then it
// tells when the next one is available. Errors: the table's, table.ErrConflict
// if others take permits all the time.
func (r Recent) Take(ctx context.Context) (*Exceeded, error) {
	var exceeded *Exceeded
	err := r.change(ctx, func(times []int64, now time.Time) ([]int64, bool) {
		exceeded = nil
		if len(times) >= r.Limit { //guard:limit/recent false
			free := time.UnixMilli(times[len(times)-r.Limit]).Add(r.Per)
			exceeded = &Exceeded{After: free.Sub(now), Count: int64(len(times))}
			return nil, false
		}
		return append(times, now.UnixMilli()), true
	})
	return exceeded, err
}

// Return gives back a permit that was taken in vain. It does nothing if there
// is none.
func (r Recent) Return(ctx context.Context) error {
	return r.change(ctx, func(times []int64, _ time.Time) ([]int64, bool) {
		if len(times) == 0 {
			return nil, false
		}
		return times[:len(times)-1], true
	})
}

// attempts bounds the repetitions of a change that others precede. Permits run
// out before it is reached.
const attempts = 200

// change replaces the times of the last Per by what next returns, until no
// other process changes them meanwhile; next returns false to leave them.
func (r Recent) change(ctx context.Context, next func(times []int64, now time.Time) ([]int64, bool)) error {
	for range attempts {
		stored, err := table.Load[recent](ctx, r.Table, r.Key, table.Consistent)
		if err != nil && !errors.Is(err, table.ErrNotFound) {
			return fmt.Errorf("recent permits: %w", err)
		}
		now := r.Clock.Now()
		since := now.Add(-r.Per).UnixMilli()
		times, ok := next(slices.DeleteFunc(stored.Times, func(at int64) bool { return at <= since }), now)
		if !ok {
			return nil
		}
		unchanged := table.IsNew()
		if stored.Revision > 0 {
			unchanged = table.Eq("revision", stored.Revision)
		}
		err = r.Table.Put(ctx, table.Put{If: unchanged, Item: recent{
			Key: r.Key, Times: times, Revision: stored.Revision + 1, TTL: now.Add(r.Per + kept).Unix(),
		}})
		if !errors.Is(err, table.ErrConditionFailed) {
			return err
		}
	}
	return fmt.Errorf("recent permits: %w", table.ErrConflict)
}
