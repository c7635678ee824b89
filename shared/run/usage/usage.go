// Package usage counts what the runs of a workspace used in a calendar month:
// how many were accepted, and the compute of their Python tasks.
//
// Usage is not maintained while runs run, so that it costs them no write and no
// crash or repeated message changes it. It is the sum of what the records of runs
// and attempts say. What cannot change any more is summed once: a ledger has the
// sums of all runs up to one, but for those that had not ended, which it names. A
// count reads on from there, and moves the ledger.
//
// Stored item, at <org>#usage:
//
//	ledger  the sums of what was counted so far
package usage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/run/runstate"
)

const (
	// settled is the age of a run from which on no older one can still appear in
	// the list of runs: no request takes that long, nor does the list's index.
	settled = 5 * time.Minute
	// maxOpen bounds the unfinished runs that the ledger names. If there are more
	// it does not move, and counts read more.
	maxOpen = 2000
)

// Meter counts usage.
type Meter struct {
	Table table.Table
	Blob  blob.Store
	Clock clock.Clock
}

// Month is what runs used in a calendar month of UTC.
type Month struct {
	Month string `table:"m"` // such as 2026-11
	// Runs is the number of runs that were accepted.
	Runs int64 `table:"r,omitempty"`
	// Compute is that of the attempts of Python tasks that ended, in MB
	// milliseconds: the memory of the tier times the duration.
	Compute int64 `table:"c,omitempty"`
}

// GBSeconds returns the compute in GB-seconds.
func (m Month) GBSeconds() int64 { return m.Compute / (1024 * 1000) }

// ledger has the sums of the runs up to one. It is a function of the records up to
// there: of two counts at once either's ledger may stay.
type ledger struct {
	table.Key
	Upto   string   `table:"upto,omitempty"` // a run's id
	Open   []string `table:"open,omitempty"` // runs up to it whose compute is not in Months
	Months []Month  `table:"months,omitempty"`
}

// month returns the sums of a month of UTC, which stay the ledger's.
func (l *ledger) month(of time.Time) *Month {
	name := Name(of)
	for i := range l.Months {
		if l.Months[i].Month == name {
			return &l.Months[i]
		}
	}
	l.Months = append(l.Months, Month{Month: name})
	return &l.Months[len(l.Months)-1]
}

// copy returns a ledger whose sums can be changed.
func (l ledger) copy() ledger {
	l.Months, l.Open = append([]Month(nil), l.Months...), append([]string(nil), l.Open...)
	return l
}

// Name returns the name of a time's month in UTC, such as 2026-11.
func Name(t time.Time) string { return t.UTC().Format("2006-01") }

// Of returns what a workspace used in the month of a time. It includes what
// unfinished runs used so far.
func (m Meter) Of(ctx context.Context, org string, at time.Time) (Month, error) {
	all, err := m.count(ctx, org)
	if err != nil {
		return Month{}, fmt.Errorf("count usage: %w", err)
	}
	return *all.month(at), nil
}

// count moves the ledger, and returns it with the sums of the rest added.
func (m Meter) count(ctx context.Context, org string) (ledger, error) {
	key := table.Key{PK: org + "#usage", SK: "ledger"}
	sealed, err := table.Load[ledger](ctx, m.Table, key, table.Consistent)
	if err != nil && !errors.Is(err, table.ErrNotFound) {
		return sealed, err
	}
	sealed.Key = key
	if err := m.close(ctx, org, &sealed); err != nil {
		return sealed, err
	}
	all, moving := sealed.copy(), true
	oldest := m.Clock.Now().Add(-settled)
	q := table.Query{Index: runstate.ListIndex("", ""), PK: runstate.ListPartition(org, "", ""), Range: table.After(sealed.Upto), Limit: table.MaxBatchGet}
	if sealed.Upto == "" {
		q.Range = table.Range{}
	}
	for {
		page, err := m.Table.Query(ctx, q)
		if err != nil {
			return all, err
		}
		was := sealed.Upto
		runs, err := m.runs(ctx, page.Items)
		if err != nil {
			return all, err
		}
		for i := range runs {
			run := &runs[i]
			made, ok := ids.Time(run.ID)
			moving = moving && ok && made.Before(oldest) && len(sealed.Open) < maxOpen
			if err := m.add(ctx, run, &sealed, &all, moving); err != nil {
				return all, err
			}
		}
		if sealed.Upto != was {
			if err := m.Table.Put(ctx, table.Put{Item: sealed}); err != nil {
				return all, err
			}
		}
		if page.Next == "" {
			break
		}
		q.Start = page.Next
	}
	return all, m.addOpen(ctx, org, sealed.Open, &all)
}

// add adds a run to the sums of all, and to the ledger if that moves on to it. The
// compute of one that has not ended is added by addOpen where the ledger names it.
func (m Meter) add(ctx context.Context, run *runstate.Run, sealed, all *ledger, moving bool) error {
	made := run.CreatedAt.Time()
	all.month(made).Runs++
	if moving {
		sealed.month(made).Runs++
		sealed.Upto = run.ID
		if !run.Status.RunEnded() {
			sealed.Open = append(sealed.Open, run.ID)
			return nil
		}
	}
	return m.attempts(ctx, run, func(ended time.Time, compute int64) {
		all.month(ended).Compute += compute
		if moving {
			sealed.month(ended).Compute += compute
		}
	})
}

// close adds the compute of the open runs that have ended since, and stores the
// ledger.
func (m Meter) close(ctx context.Context, org string, sealed *ledger) error {
	runs, err := m.open(ctx, org, sealed.Open)
	if err != nil {
		return err
	}
	var open []string
	for i := range runs {
		if !runs[i].Status.RunEnded() {
			open = append(open, runs[i].ID)
			continue
		}
		err := m.attempts(ctx, &runs[i], func(ended time.Time, compute int64) { sealed.month(ended).Compute += compute })
		if err != nil {
			return err
		}
	}
	if len(open) == len(sealed.Open) {
		return nil
	}
	sealed.Open = open
	return m.Table.Put(ctx, table.Put{Item: *sealed})
}

// addOpen adds what unfinished runs used so far.
func (m Meter) addOpen(ctx context.Context, org string, open []string, all *ledger) error {
	runs, err := m.open(ctx, org, open)
	if err != nil {
		return err
	}
	for i := range runs {
		err := m.attempts(ctx, &runs[i], func(ended time.Time, compute int64) { all.month(ended).Compute += compute })
		if err != nil {
			return err
		}
	}
	return nil
}
