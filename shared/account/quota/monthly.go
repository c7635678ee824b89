package quota

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"

	"millrace/shared/platform/errs"
)

// ErrMonth is the cause of an errs.TooMany that ends with the month.
var ErrMonth = errors.New("monthly quota")

const (
	recheck = 30 * time.Second // how long a process relies on a count of what was spent
	mostOrg = 20_000           // workspaces whose counts a process keeps
	grace   = 24 * time.Hour   // how long the item of a past month is kept
)

// MonthCount counts what was used in the calendar month that begins at a time.
type MonthCount func(ctx context.Context, month time.Time) (int64, error)

// monthOf returns the calendar month of UTC that a time is in.
func monthOf(now time.Time) (begin, end time.Time) {
	now = now.UTC()
	begin = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	return begin, begin.AddDate(0, 1, 0)
}

// TakeMonthly takes a permit of a monthly limit whose things are counted exactly
// and one at a time. Errors: errs.TooMany with the cause [ErrMonth].
func (q *Quota) TakeMonthly(ctx context.Context, name Name, id string, count MonthCount) error {
	l, value := q.limit(name)
	if l == nil {
		return nil
	}
	begin, end := monthOf(q.clock.Now())
	key := l.key(id)
	key.SK += begin.Format("#2006-01")
	refused, err := q.limiter.Take(ctx, key.PK+"#"+key.SK, value, 1, stock{
		table: q.table, clock: q.clock, key: key, limit: value, again: later, end: end,
		count: func(ctx context.Context) (int64, error) { return count(ctx, begin) },
	})
	if err != nil || refused == nil {
		return err
	}
	return q.exhausted(l, value, max(value, refused.Count))
}

// CheckMonthly refuses if a monthly limit of something is reached whose amount is
// known afterwards only. A process counts it at most every half a minute, so that
// somewhat more can be used. Errors: errs.TooMany with the cause [ErrMonth].
func (q *Quota) CheckMonthly(ctx context.Context, name Name, id string, count MonthCount) error {
	l, value := q.limit(name)
	if l == nil {
		return nil
	}
	used, err := q.spent.of(ctx, q, l, id, count)
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		q.log.WarnContext(ctx, "usage not counted, the limit is not enforced for now", "limit", name, "error", err)
		return nil
	case used < value:
		return nil
	}
	return q.exhausted(l, value, used)
}

// exhausted returns the 429 of a monthly limit.
func (q *Quota) exhausted(l *Limit, value, used int64) error {
	now := q.clock.Now()
	begin, end := monthOf(now)
	return &errs.Error{Code: errs.TooMany, RetryAfter: end.Sub(now), Cause: ErrMonth, Message: fmt.Sprintf(
		"Monthly quota exceeded: the %s has used %d %s in %s; at most %d are allowed in a calendar month (limit %s). It begins anew at %s, unless the operator raises the limit",
		l.Scope, used, l.What, begin.Format("January 2006"), value, l.Name, end.Format(time.RFC3339))}
}

// Use is how much of a monthly limit is used.
type Use struct {
	Name       Name
	Used       int64
	Limit      int64 // negative: unlimited
	Begin, End time.Time
}

// Uses returns how much of each monthly limit is used in the current month, in the
// order of [Limits]. used returns the amounts of the month that begins at a time.
func (q *Quota) Uses(ctx context.Context, used func(ctx context.Context, month time.Time) (map[Name]int64, error)) ([]Use, error) {
	begin, end := monthOf(q.clock.Now())
	amounts, err := used(ctx, begin)
	if err != nil {
		return nil, err
	}
	var out []Use
	for _, l := range Limits {
		if l.Monthly {
			value, _ := q.values.Of(l.Name)
			out = append(out, Use{Name: l.Name, Used: amounts[l.Name], Limit: value, Begin: begin, End: end})
		}
	}
	return out, nil
}

// spent are counts of this process.
type spent struct {
	group singleflight.Group
	mu    sync.Mutex
	known *simplelru.LRU[string, amount]
}

// amount is a count that holds until a time.
type amount struct {
	used  int64
	until time.Time
}

func newSpent() *spent {
	known, err := simplelru.NewLRU[string, amount](mostOrg, nil)
	if err != nil {
		panic(err) // only for a capacity below one
	}
	return &spent{known: known}
}

// of returns what was used in the current month, as it was counted a short while
// ago: the shorter, the less time a count takes.
func (s *spent) of(ctx context.Context, q *Quota, l *Limit, id string, count MonthCount) (int64, error) {
	began := q.clock.Now()
	begin, end := monthOf(began)
	key := string(l.Name) + "#" + id + "#" + strconv.FormatInt(begin.Unix(), 10)
	s.mu.Lock()
	now, ok := s.known.Get(key)
	s.mu.Unlock()
	if ok && began.Before(now.until) {
		return now.used, nil
	}
	used, err, _ := s.group.Do(key, func() (any, error) {
		used, err := count(ctx, begin)
		if err != nil {
			return used, err
		}
		counted := q.clock.Now()
		until := counted.Add(max(recheck, sparing*counted.Sub(began)))
		if until.After(end) {
			until = end
		}
		s.mu.Lock()
		s.known.Add(key, amount{used, until})
		s.mu.Unlock()
		return used, nil
	})
	return used.(int64), err
}
