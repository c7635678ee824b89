// Package tabletest is the conformance suite of package table, for the embedded
// server's table, DynamoDB Local and DynamoDB. It does not need an empty table,
// accepts eventually consistent indexes and conflicts between transactions, and
// checks at its end that every form of condition, action, range and index was
// exercised.
package tabletest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"

	"github.com/stretchr/testify/require"
)

// Exercise runs the suite. newTable returns a driver on a table with all of
// table.Indexes; it is called many times, concurrently, and may return the same
// one. deviations are those of the server behind it, if any.
func Exercise(t *testing.T, newTable func(t *testing.T) table.Table, deviations ...Deviations) {
	seen := newForms()
	var deviates Deviations
	if len(deviations) > 0 {
		deviates = deviations[0]
	}
	t.Run("Suite", func(t *testing.T) {
		for _, group := range []struct {
			name  string
			tests map[string]func(*suite)
		}{
			{"Items", items},
			{"Conditions", conditions},
			{"Actions", actions},
			{"Transactions", transactions},
			{"Batches", batches},
			{"Queries", queries},
			{"Projections", projections},
			{"Indexes", indexes},
			{"Cursors", cursors},
			{"Limits", limits},
			{"Capacity", capacity},
			{"Concurrency", concurrency},
			{"Model", random},
		} {
			for name, test := range group.tests {
				t.Run(group.name+"/"+name, func(t *testing.T) {
					t.Parallel()
					s := newSuite(t, &recorder{Table: newTable(t), seen: seen})
					s.deviates = deviates
					test(s)
				})
			}
		}
	})
	if !t.Failed() {
		seen.check(t)
	}
}

// suite is one test's view: its own partitions of the table.
type suite struct {
	*testing.T
	table.Table
	ctx      context.Context
	prefix   string
	deviates Deviations
}

func newSuite(t *testing.T, tbl table.Table) *suite {
	return &suite{T: t, Table: tbl, ctx: t.Context(), prefix: "test#" + rand.Text()[:12]}
}

// key returns the key of an item in the test's first partition.
func (s *suite) key(sk string) table.Key { return table.Key{PK: s.prefix, SK: sk} }

// item returns an item of name, value pairs.
func (s *suite) item(sk string, pairs ...any) table.Item {
	item := table.Item{"pk": table.V(s.prefix), "sk": table.V(sk)}
	for i := 0; i < len(pairs); i += 2 {
		item[pairs[i].(string)] = table.V(pairs[i+1])
	}
	return item
}

// given stores an item and returns it.
func (s *suite) given(sk string, pairs ...any) table.Item {
	s.Helper()
	item := s.item(sk, pairs...)
	require.NoError(s, s.Put(s.ctx, table.Put{Item: item}))
	return item
}

// stored reads an item consistently and returns nil if it does not exist.
func (s *suite) stored(key table.Key) table.Item {
	s.Helper()
	item, err := s.Get(s.ctx, key, table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return nil
	}
	require.NoError(s, err)
	return item
}

// transact runs a transaction until it does not conflict with another.
func (s *suite) transact(writes ...table.Write) error {
	for {
		err := s.Transact(s.ctx, writes...)
		if !errors.Is(err, table.ErrConflict) {
			return err
		}
	}
}

// sortKeys returns the items' sort keys.
func sortKeys(items []table.Item) []string {
	out := make([]string, len(items))
	for i, item := range items {
		out[i] = item.Key().SK
	}
	return out
}

// all returns all items of a query.
func (s *suite) all(q table.Query) []table.Item {
	s.Helper()
	items := []table.Item{}
	for item, err := range table.All(s.ctx, s.Table, q) {
		require.NoError(s, err)
		items = append(items, item)
	}
	return items
}

// How long an index may lag behind its table, and how often it is polled.
const (
	patience = time.Minute
	poll     = 2 * time.Millisecond
)

// settles waits until a query of an index returns the sort keys of want, in
// order.
func (s *suite) settles(q table.Query, want ...string) {
	s.Helper()
	s.eventually(q, func(got []string) bool { return slices.Equal(want, got) }, want)
}

// settlesInAnyOrder is settles without regard to order.
func (s *suite) settlesInAnyOrder(q table.Query, want []string) {
	s.Helper()
	s.eventually(q, func(got []string) bool {
		return slices.Equal(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got)))
	}, want)
}

func (s *suite) eventually(q table.Query, settled func(got []string) bool, want []string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	for {
		got := sortKeys(s.all(q))
		if settled(got) {
			return
		}
		if clock.Sleep(ctx, poll) != nil {
			require.Equal(s, want, got, "the index did not settle")
			return
		}
	}
}

// numbered returns n names that sort in numeric order.
func numbered(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("n%04d", i)
	}
	return out
}
