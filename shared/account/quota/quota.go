// Package quota limits the rate of requests of a workspace or a user, and the
// number of things they may have. [Limits] is the table of limits. All
// processes of the service share a limit and draw permits from it in slices
// (package ratelimit).
//
// Usage is never maintained by increments and decrements, so a process killed
// between two writes cannot corrupt it. The things are counted where they are
// stored, and the difference to the limit is the room that slices are drawn
// from; when the room is used up, they are counted again. The count is
// therefore exact whenever it decides, ends and deletions need no write, and an
// unused permit returns by itself.
//
// Stored items, at <org>#quota, user#<email>#quota or webhook#<sha256>#quota:
//
//	<limit>#<unix>  a window of a rate: the permits drawn from it
//	<limit>         a quota: its remaining room
//	<limit>#<month> a monthly limit of things that are counted one at a time: its
//	                remaining room
package quota

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"millrace/shared/account/tenant"
	"millrace/shared/kit/ratelimit"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

// Quota enforces the limits. It is safe for concurrent use. A nil Quota admits
// everything.
type Quota struct {
	table   table.Table
	clock   clock.Clock
	values  Values
	own     bool // some workspace has settings of its own
	limiter *ratelimit.Limiter
	log     *slog.Logger
	spent   *spent
}

// Config configures a Quota.
type Config struct {
	Table  table.Table
	Clock  clock.Clock
	Log    *slog.Logger // nil: slog.Default
	Values Values       // the operator's settings
	// Chance returns numbers from 0 to n-1; nil means random ones.
	Chance func(n int64) int64
}

// New returns a Quota.
func New(c Config) *Quota {
	return &Quota{
		table: c.Table, clock: c.Clock, values: c.Values, own: c.Values.own(),
		limiter: ratelimit.New(c.Clock, cmp.Or(c.Log, slog.Default()), c.Chance),
		log:     cmp.Or(c.Log, slog.Default()), spent: newSpent(),
	}
}

// Count returns the number of existing things that a quota limits.
type Count func(ctx context.Context) (int64, error)

// Request counts a request of a principal. Errors: errs.TooMany.
func (q *Quota) Request(ctx context.Context, p tenant.Principal, mutation bool) error {
	if q == nil {
		return nil
	}
	if p.Email != "" {
		if err := q.Rate(ctx, UserRequests, p.Email); err != nil {
			return err
		}
	}
	switch {
	case p.OrgID == "":
		return nil
	case mutation:
		return q.Rate(ctx, Writes, p.OrgID)
	}
	return q.Rate(ctx, Reads, p.OrgID)
}

// limit returns a limit and its value, or nil if it is unlimited.
func (q *Quota) limit(name Name) (*Limit, int64) {
	if q == nil {
		return nil, 0
	}
	value, limited := q.values.Of(name)
	if !limited {
		return nil, 0
	}
	return byName[name], value
}

// Most returns the value of a quota of a workspace for those that let things wait
// instead of refusing them. ok is false if it is unlimited.
func (q *Quota) Most(name Name, org string) (value int64, ok bool) {
	if q == nil {
		return 0, false
	}
	return q.of(name, org)
}

// Rate takes one permit of a rate for a workspace or a user. Errors:
// errs.TooMany.
func (q *Quota) Rate(ctx context.Context, name Name, id string) error {
	l, value := q.limit(name)
	if l == nil {
		return nil
	}
	key, full := l.key(id), value
	if l.Exact {
		full = 0
	}
	exceeded, err := q.limiter.Take(ctx, key.PK+"#"+key.SK, full, 1, ratelimit.Window{
		Table: q.table, Clock: q.clock, Key: key, Limit: value, Per: l.Per,
	})
	if err != nil || exceeded == nil {
		return err
	}
	return l.tooFast(value, exceeded.After)
}

// Take takes n permits of a quota of a workspace or a user. count counts the
// existing things. Errors: errs.TooMany, also if n alone exceeds the limit.
func (q *Quota) Take(ctx context.Context, name Name, id string, n int64, count Count) error {
	l, value := q.limit(name)
	if l == nil {
		return nil
	}
	key := l.key(id)
	exceeded, err := q.limiter.Take(ctx, key.PK+"#"+key.SK, value, n, stock{
		table: q.table, clock: q.clock, key: key, limit: value, whole: l.Whole, again: l.Again, count: count,
	})
	if err != nil || exceeded == nil {
		return err
	}
	return l.tooMuch(value, n, exceeded)
}

// Hold compares an exact count, which the caller's transaction maintains, with
// a quota. Errors: errs.TooMany if there is no room for one more.
func (q *Quota) Hold(name Name, count int64) error {
	l, value := q.limit(name)
	if l == nil || count < value {
		return nil
	}
	return l.tooMuch(value, 1, &ratelimit.Exceeded{After: later, Count: count})
}

// key returns the key of a workspace's or user's limit.
func (l *Limit) key(id string) table.Key {
	if l.Scope == User {
		id = "user#" + id
	}
	return table.Key{PK: id + "#quota", SK: string(l.Name)} //guard:tenant/quota operand 1 "all"
}

// tooFast returns the 429 of a rate.
func (l *Limit) tooFast(value int64, after time.Duration) error {
	return &errs.Error{Code: errs.TooMany, RetryAfter: after, Message: fmt.Sprintf(
		"Too many %s: at most %d are allowed in a minute for a %s (limit %s). Try again in %d s",
		l.What, value, l.Scope, l.Name, seconds(after))}
}

// tooMuch returns the 429 of a quota.
func (l *Limit) tooMuch(value, n int64, r *ratelimit.Exceeded) error {
	asked := ""
	if n > 1 {
		asked = fmt.Sprintf(", and %d more were asked for", n)
	}
	return &errs.Error{Code: errs.TooMany, RetryAfter: r.After, Message: fmt.Sprintf(
		"The %s has %d %s%s; at most %d are allowed (limit %s). %s, or ask the operator to raise the limit",
		l.Scope, r.Count, l.What, asked, value, l.Name, strings.TrimSuffix(l.Advice, "."))}
}

func seconds(d time.Duration) int64 { return max(1, int64((d+time.Second-1)/time.Second)) }
