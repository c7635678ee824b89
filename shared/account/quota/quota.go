// Package quota bounds what a workspace or a user may do in a minute, and how
// much they may have: [Limits] is the table of it. All processes of the service
// share a limit, which is drawn from in slices (package ratelimit).
//
// How much there is of something is never kept by adding and subtracting, so
// nothing that is killed between two writes can spoil it. What there is gets
// counted where it is stored, and the difference to the limit is the room that
// is drawn from; when the room is used up, it is counted again. So the count is
// exact whenever it decides, ends and deletions need no write, and a permit that
// came to nothing is given back by itself.
//
// Stored items, at <org>#quota or user#<email>#quota:
//
//	<limit>#<unix>  a window of a rate: what was drawn of it
//	<limit>         a quota: the room that is left of it
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

// Quota holds callers to the limits. It is safe for concurrent use. A nil Quota
// lets everything pass.
type Quota struct {
	table   table.Table
	clock   clock.Clock
	values  Values
	limiter *ratelimit.Limiter
}

// Config is what a Quota is made of.
type Config struct {
	Table  table.Table
	Clock  clock.Clock
	Log    *slog.Logger // nil: slog.Default
	Values Values       // what the operator set
	// Chance draws numbers from 0 to n-1; nil: at random.
	Chance func(n int64) int64
}

// New makes a Quota.
func New(c Config) *Quota {
	return &Quota{
		table: c.Table, clock: c.Clock, values: c.Values,
		limiter: ratelimit.New(c.Clock, cmp.Or(c.Log, slog.Default()), c.Chance),
	}
}

// Count counts how much there is of what a limit bounds.
type Count func(ctx context.Context) (int64, error)

// Request counts a request of a caller. Errors: errs.TooMany.
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

// Rate counts one of a rate for a workspace or a user. Errors: errs.TooMany.
func (q *Quota) Rate(ctx context.Context, name Name, id string) error {
	if q == nil {
		return nil
	}
	value, limited := q.values.Of(name)
	if !limited {
		return nil
	}
	l := byName[name]
	key := l.key(id)
	refused, err := q.limiter.Take(ctx, key.PK+"#"+key.SK, value, 1, ratelimit.Window{
		Table: q.table, Clock: q.clock, Key: key, Limit: value, Per: l.Per,
	})
	if err != nil || refused == nil {
		return err
	}
	return l.tooFast(value, refused.After)
}

// Take takes n of a quota of a workspace or a user; count counts how much there
// is of it. Errors: errs.TooMany, also if n alone is more than the limit.
func (q *Quota) Take(ctx context.Context, name Name, id string, n int64, count Count) error {
	if q == nil {
		return nil
	}
	value, limited := q.values.Of(name)
	if !limited {
		return nil
	}
	l := byName[name]
	key := l.key(id)
	refused, err := q.limiter.Take(ctx, key.PK+"#"+key.SK, value, n, stock{
		table: q.table, clock: q.clock, key: key, limit: value, whole: l.Whole, again: l.Again, count: count,
	})
	if err != nil || refused == nil {
		return err
	}
	return l.tooMuch(value, n, refused)
}

// Hold compares an exact count, which the caller's transaction keeps, with a
// quota. Errors: errs.TooMany if there is no room for one more.
func (q *Quota) Hold(name Name, count int64) error {
	if q == nil {
		return nil
	}
	value, limited := q.values.Of(name)
	if !limited || count < value {
		return nil
	}
	return byName[name].tooMuch(value, 1, &ratelimit.Refusal{After: later, Count: count})
}

// key is where a limit of a workspace or a user is stored.
func (l *Limit) key(id string) table.Key {
	if l.Scope == User {
		id = "user#" + id
	}
	return table.Key{PK: id + "#quota", SK: string(l.Name)} //guard:tenant/quota operand 1 "all"
}

// tooFast is the 429 of a rate.
func (l *Limit) tooFast(value int64, after time.Duration) error {
	return &errs.Error{Code: errs.TooMany, RetryAfter: after, Message: fmt.Sprintf(
		"Too many %s: at most %d are allowed in a minute for a %s (limit %s). Try again in %d s",
		l.What, value, l.Scope, l.Name, seconds(after))}
}

// tooMuch is the 429 of a quota.
func (l *Limit) tooMuch(value, n int64, r *ratelimit.Refusal) error {
	asked := ""
	if n > 1 {
		asked = fmt.Sprintf(", and %d more were asked for", n)
	}
	return &errs.Error{Code: errs.TooMany, RetryAfter: r.After, Message: fmt.Sprintf(
		"The %s has %d %s%s; at most %d are allowed (limit %s). %s, or ask the operator to raise the limit",
		l.Scope, r.Count, l.What, asked, value, l.Name, strings.TrimSuffix(l.Advice, "."))}
}

func seconds(d time.Duration) int64 { return max(1, int64((d+time.Second-1)/time.Second)) }
