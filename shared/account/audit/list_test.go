package audit_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/localstack/emulators"
	"millrace/localstack/proof/memory"
	"millrace/localstack/proof/seed"
	"millrace/shared/account/audit"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
)

func TestMain(m *testing.M) {
	seed.Fix()
	os.Exit(m.Run())
}

// as returns a context in which a user of a workspace acts.
func as(ctx context.Context, org, email string) context.Context {
	return tenant.With(ctx, tenant.Principal{OrgID: org, Email: email})
}

// add stores entries of a workspace, newest first.
func add(t require.TestingT, store table.Table, made []audit.Record) []audit.Record {
	writes := make([]table.Write, len(made))
	for i, r := range made {
		writes[i] = table.Put{Item: r}
	}
	require.NoError(t, store.BatchWrite(context.Background(), writes))
	slices.SortFunc(made, func(a, b audit.Record) int { return -compare(a, b) })
	return made
}

func compare(a, b audit.Record) int {
	switch {
	case a.EventTime() < b.EventTime():
		return -1
	case a.EventTime() > b.EventTime():
		return 1
	}
	return 0
}

// names returns the event times of entries.
func names(entries []audit.Record) []string {
	out := make([]string, len(entries))
	for i, r := range entries {
		out[i] = r.EventTime()
	}
	return out
}

// all reads a query page by page.
func all(t require.TestingT, store table.Table, org string, q audit.Query) (items []audit.Record, pages int) {
	for {
		page, err := audit.List(context.Background(), store, org, q)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Items), q.Limit)
		pages++
		items = append(items, page.Items...)
		if page.Next == "" {
			return items, pages
		}
		require.True(t, q.After == "" || page.Next < q.After, "a page gets on")
		q.After = page.Next
	}
}

var (
	actors  = []string{"", "a@acme.test", "b@acme.test", "nobody@acme.test"}
	types   = []string{"", "run", "flow", "secret"}
	actions = []string{"", "create", "update", "cancel"}
)

// TestListMatchesFilteredSlice checks that the pages of any query equal a
// filter of all entries, newest first, without entries of another workspace.
func TestListMatchesFilteredSlice(t *testing.T) {
	t.Parallel()
	store := memory.Table(t, clock.System{})
	workspace := 0
	rapid.Check(t, func(t *rapid.T) {
		workspace++
		org, other := fmt.Sprint("org_", workspace), fmt.Sprint("org_", workspace, "x")
		var made []audit.Record
		for range rapid.SampledFrom([]int{0, 3, 40, 150}).Draw(t, "entries") {
			ctx := as(context.Background(), org, rapid.SampledFrom(actors[:3]).Draw(t, "by"))
			at := now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "at")) * time.Millisecond)
			c := audit.Change{
				Action: rapid.SampledFrom(actions[1:]).Draw(t, "did"), ResourceType: rapid.SampledFrom(types[1:]).Draw(t, "to"),
				ResourceID: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "id"),
			}
			made = append(made, record(t, audit.Entry(ctx, at, c)))
			add(t, store, []audit.Record{record(t, audit.EntryFor(ctx, other, at, c))})
		}
		made = add(t, store, made)

		q := audit.Query{
			Actor: rapid.SampledFrom(actors).Draw(t, "actor"), Action: rapid.SampledFrom(actions).Draw(t, "action"),
			ResourceType: rapid.SampledFrom(types).Draw(t, "type"), Limit: rapid.SampledFrom([]int{1, 2, 7, 50, audit.MaxLimit}).Draw(t, "limit"),
		}
		if q.ResourceType != "" {
			q.ResourceID = rapid.SampledFrom([]string{"", "", "1", "3"}).Draw(t, "resource")
		}
		bound := func(label string) time.Time {
			if ms := rapid.IntRange(-1, 21).Draw(t, label); ms >= 0 {
				return now.Add(time.Duration(ms) * time.Millisecond)
			}
			return time.Time{}
		}
		q.From, q.To = bound("from"), bound("to")
		want := filter(made, q)
		between := filter(made, audit.Query{From: q.From, To: q.To})
		slices.Reverse(between)
		got, _ := all(t, store, org, q)
		require.Equal(t, names(want), names(got))
		whole := []audit.Record{}
		for r, err := range audit.Entries(context.Background(), store, org, q.From, q.To) {
			require.NoError(t, err)
			whole = append(whole, r)
		}
		require.Equal(t, between, whole)
	})
}

// filter returns the entries that a query selects.
func filter(made []audit.Record, q audit.Query) []audit.Record {
	out := []audit.Record{}
	is := func(want, got string) bool { return want == "" || want == got }
	for _, r := range made {
		at, _ := ids.Time(r.ID())
		if !at.Before(q.From) && (q.To.IsZero() || at.Before(q.To)) && is(q.Actor, r.ActorEmail) && is(q.Action, r.Action) &&
			is(q.ResourceType, r.ResourceType) && is(q.ResourceID, r.ResourceID) {
			out = append(out, r)
		}
	}
	return out
}

// TestListOnDynamoDB reads the same entries from DynamoDB Local.
func TestListOnDynamoDB(t *testing.T) {
	t.Parallel()
	store := emulators.Table(t)
	made := crowd(t, store, 200)
	middle := now.Add(100 * time.Millisecond)
	for _, q := range []audit.Query{
		{Limit: 100}, {Limit: 40, From: middle}, {Limit: 1, Actor: "a@acme.test"}, {Limit: 7, Action: "create", To: middle},
		{Limit: 50, ResourceType: "run", Action: "create", Actor: "ci@acme.test"}, {Limit: 10, ResourceType: "flow", Action: "update"},
		{Limit: 10, ResourceType: "flow", ResourceID: "50"}, {Limit: 10, Actor: "ci@acme.test", Action: "update"},
	} {
		got, _ := all(t, store, "acme", q)
		assert.Equal(t, names(filter(made, q)), names(got), "%+v", q)
	}
	whole := []audit.Record{}
	for r, err := range audit.Entries(t.Context(), store, "acme", middle, time.Time{}) {
		require.NoError(t, err)
		whole = append(whole, r)
	}
	want := filter(made, audit.Query{From: middle})
	slices.Reverse(want)
	assert.Equal(t, names(want), names(whole))
}

// crowd stores entries of a busy workspace, a millisecond apart: creates of
// runs by one actor, and every hundredth an update of a flow by another.
func crowd(t *testing.T, store table.Table, n int) []audit.Record {
	var made []audit.Record
	for i := range n {
		ctx, c := as(t.Context(), "acme", "ci@acme.test"), audit.Change{Action: "create", ResourceType: "run", ResourceID: fmt.Sprint(i)}
		if i%100 == 50 {
			ctx, c = as(t.Context(), "acme", "a@acme.test"), audit.Change{Action: "update", ResourceType: "flow", ResourceID: fmt.Sprint(i % 1000)}
		}
		made = append(made, record(t, audit.Entry(ctx, now.Add(time.Duration(i)*time.Millisecond), c)))
	}
	return add(t, store, made)
}

// TestListCostIsIndependentOfOtherEntries bounds the requests of a page.
func TestListCostIsIndependentOfOtherEntries(t *testing.T) {
	t.Parallel()
	store := memory.Table(t, clock.System{})
	crowd(t, store, 5000)
	for name, c := range map[string]struct {
		query       audit.Query
		items       int
		reads, cost int  // upper bounds: queries, read units
		last        bool // no further page
	}{
		"everything":               {audit.Query{}, 50, 8, 25, false},
		"one actor":                {audit.Query{Actor: "a@acme.test"}, 50, 8, 60, false},
		"one action":               {audit.Query{Action: "update"}, 50, 8, 60, false},
		"one type":                 {audit.Query{ResourceType: "flow"}, 50, 16, 65, false},
		"all three":                {audit.Query{Actor: "a@acme.test", Action: "update", ResourceType: "flow"}, 50, 24, 70, false},
		"one resource":             {audit.Query{ResourceType: "flow", ResourceID: "50"}, 5, 1, 6, true},
		"the frequent kind":        {audit.Query{Action: "create", ResourceType: "run"}, 50, 8, 70, false},
		"a day without entries":    {audit.Query{To: now}, 0, 8, 8, true},
		"an actor without entries": {audit.Query{Actor: "nobody@acme.test", Action: "update"}, 0, 16, 16, true},
		"filters that never meet":  {audit.Query{Actor: "ci@acme.test", Action: "update"}, 0, 128, 128, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			meter := &table.Meter{}
			c.query.Limit = 50
			page, err := audit.List(t.Context(), table.Metered(store, meter), "acme", c.query)
			require.NoError(t, err)
			usage := meter.Usage()
			assert.Len(t, page.Items, c.items)
			assert.LessOrEqual(t, usage.Requests[table.OpQuery], c.reads)
			assert.LessOrEqual(t, usage.Total().Read, float64(c.cost))
			if c.last {
				assert.Empty(t, page.Next)
			}
		})
	}
	items, pages := all(t, store, "acme", audit.Query{Actor: "ci@acme.test", Action: "update", Limit: 50})
	assert.Empty(t, items)
	assert.LessOrEqual(t, pages, 3, "an empty page is not the end")
}

// TestEntriesSpreadOverPartitions checks that the repeated changes of one actor
// load all partitions of the table and of the lists about equally.
func TestEntriesSpreadOverPartitions(t *testing.T) {
	t.Parallel()
	const n = 8000
	for _, c := range []audit.Change{{Action: "create", ResourceType: "run"}, {Action: "read", ResourceType: "secret"}} {
		counts := map[string]int{}
		for i := range n {
			c.ResourceID = fmt.Sprint(i)
			r := record(t, audit.Entry(as(t.Context(), "acme", "ci@acme.test"), now, c))
			counts[r.PK]++
			item, err := table.Marshal(r)
			require.NoError(t, err)
			for _, index := range table.Indexes {
				if entry, ok := item.Entry(index); ok {
					counts[string(index)+" "+entry.PK]++
				}
			}
		}
		assert.Less(t, slices.Max(slices.Collect(maps.Values(counts))), n/audit.Shards*5/4, "%+v", c)
	}
}

// TestListRejectsInvalidQueries covers invalid queries and foreign cursors.
func TestListRejectsInvalidQueries(t *testing.T) {
	t.Parallel()
	store := memory.Table(t, clock.System{})
	for name, c := range map[string]struct {
		org   string
		query audit.Query
		want  error
	}{
		"no workspace":            {"", audit.Query{Limit: 1}, table.ErrInvalid},
		"no limit":                {"acme", audit.Query{}, table.ErrInvalid},
		"too many":                {"acme", audit.Query{Limit: audit.MaxLimit + 1}, table.ErrInvalid},
		"a resource without type": {"acme", audit.Query{Limit: 1, ResourceID: "1"}, table.ErrInvalid},
		"another cursor":          {"acme", audit.Query{Limit: 1, After: "x"}, table.ErrBadCursor},
		"a longer cursor":         {"acme", audit.Query{Limit: 1, After: ids.New(now) + "1"}, table.ErrBadCursor},
	} {
		_, err := audit.List(t.Context(), store, c.org, c.query)
		assert.ErrorIs(t, err, c.want, name)
	}
}

// TestFiltersAreNotKeys checks that a filter that is a part of a list's key
// finds nothing.
func TestFiltersAreNotKeys(t *testing.T) {
	t.Parallel()
	store := memory.Table(t, clock.System{})
	crowd(t, store, 60)
	for _, q := range []audit.Query{{ResourceType: "#run#create"}, {ResourceType: "run#7", ResourceID: ""}, {Actor: "ci@acme.test#1"}} {
		q.Limit = 10
		got, _ := all(t, store, "acme", q)
		assert.Empty(t, got, "%+v", q)
	}
}

// TestWorkspace distinguishes audit partitions from partitions with user-given
// names.
func TestWorkspace(t *testing.T) {
	t.Parallel()
	org, ok := audit.Workspace(audit.Partition("acme", "3"))
	assert.True(t, ok)
	assert.Equal(t, "acme", org)
	for _, pk := range []string{"acme#audit", "acme#flow#audit", "acme#flow#audit#3", "acme#audit#run#3", "due#3", ""} {
		_, ok := audit.Workspace(pk)
		assert.False(t, ok, pk)
	}
}
