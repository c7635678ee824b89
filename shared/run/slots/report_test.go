package slots_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/memory"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/slots"
)

// reports is the partition of all workspaces' reports.
const reports = "slots"

// bubble runs a test with a table in a bubble.
func bubble(t *testing.T, test func(t *testing.T, store table.Table)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, memory.Table(t, clock.System{})) })
}

// takes takes as many slots as there are, and so many at most.
func takes(t *testing.T, s *slots.Slots, org string, most int) (taken []slots.Slot) {
	t.Helper()
	for i := range most {
		slot, err := s.Take(t.Context(), org, "run", engine.Node(i))
		require.NoError(t, err)
		if slot.None() {
			break
		}
		taken = append(taken, slot)
	}
	return taken
}

func frees(t *testing.T, s *slots.Slots, org string, taken []slots.Slot) {
	t.Helper()
	for _, slot := range taken {
		require.NoError(t, s.Release(t.Context(), org, slot))
	}
}

// reported returns the report of a workspace, nil if there is none.
func reported(t *testing.T, store table.Table, org string) table.Item {
	t.Helper()
	item, err := store.Get(t.Context(), table.Key{PK: reports, SK: org}, table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return nil
	}
	require.NoError(t, err)
	return item
}

// TestWorkspacesAskBeforeTheyGrow: workspaces that begin at the same time, with
// several processes each, take what there is and no more.
func TestWorkspacesAskBeforeTheyGrow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ workspaces, processes, all int }{{5, 1, 400}, {5, 3, 400}, {9, 2, 400}, {2, 2, 4000}, {1, 4, 400}, {20, 1, 200}} {
		for _, late := range []bool{false, true} {
			bubble(t, func(t *testing.T, store table.Table) {
				if late {
					store = &behind{Table: store}
				}
				const limit = 300
				held := make([]int, c.workspaces)
				procs := make([]*slots.Slots, c.processes)
				for i := range procs {
					procs[i] = shared(store, limit, int64(c.all))
				}
				for i := range 4000 * c.workspaces {
					w := i % c.workspaces
					got := takes(t, procs[i/c.workspaces%c.processes], fmt.Sprint("org_", w), 1)
					held[w] += len(got)
					time.Sleep(time.Millisecond)
				}
				sum := 0
				for _, n := range held {
					sum += n
				}
				name := fmt.Sprintf("%+v, late %t: %v", c, late, held)
				assert.LessOrEqual(t, sum, c.all+10*c.workspaces, "%s: each may have some before they are known", name)
				want := min(c.workspaces*limit, c.all*95/100)
				assert.GreaterOrEqual(t, sum, want*6/10, name)
				assert.GreaterOrEqual(t, slices.Min(held), min(limit, want/c.workspaces)/8, name)
			})
		}
	}
}

// behind is a table of which queries that need not be consistent are late by one.
type behind struct {
	table.Table
	last table.Page
}

func (b *behind) Query(ctx context.Context, q table.Query) (table.Page, error) {
	page, err := b.Table.Query(ctx, q)
	if q.PK != reports || q.Consistent {
		return page, err
	}
	page, b.last = b.last, page
	return page, err
}

// TestShareFollowsUse: what a workspace wants is taken from one that holds more
// than its share, as soon as that frees slots, and given back when it wants less.
func TestShareFollowsUse(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, store table.Table) {
		ctx := t.Context()
		a, b := shared(store, 60, 100), shared(store, 60, 100) // processes
		limits := func(s *slots.Slots, org string, n, all int) {
			t.Helper()
			got := s.Limit(ctx, org)
			assert.Equal(t, n, got.Slots)
			assert.Equal(t, all, got.All)
		}
		first := takes(t, a, "org_a", 100)
		assert.Len(t, first, 60, "alone it has its limit")
		limits(a, "org_a", 60, 0)
		second := takes(t, b, "org_b", 100)
		assert.Len(t, second, 35, "what the first leaves")
		limits(b, "org_b", 35, 100)
		for range 8 { // both want more
			time.Sleep(time.Second)
			takes(t, a, "org_a", 1)
			takes(t, b, "org_b", 1)
		}
		limits(a, "org_a", 47, 100)
		limits(b, "org_b", 35, 100)
		for _, slot := range first {
			passed, err := a.Pass(ctx, "org_a", slot, "run", 100)
			require.NoError(t, err)
			assert.Equal(t, slot.Number >= 47, passed.None(), slot.Number)
			assert.Equal(t, slot.Number < 47, a.Keeps(ctx, "org_a", slot))
			if passed.None() {
				require.NoError(t, a.Release(ctx, "org_a", slot))
			}
		}
		for range 12 {
			time.Sleep(time.Second)
			takes(t, a, "org_a", 1)
			second = append(second, takes(t, b, "org_b", 20)...)
		}
		assert.Len(t, second, 47)
		frees(t, b, "org_b", second)
		for range 12 {
			time.Sleep(time.Second)
			takes(t, a, "org_a", 20)
		}
		limits(a, "org_a", 60, 0)
		held, err := a.Held(ctx, "org_a")
		require.NoError(t, err)
		assert.Len(t, held, 60)
		assert.Nil(t, reported(t, store, "org_b"))
	})
}

// TestLateReportIsRenewed by a process that works for another workspace: if its
// attempts wait elsewhere, nobody does anything about their slots.
func TestLateReportIsRenewed(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, store table.Table) {
		a, b := shared(store, 60, 100), shared(store, 60, 100)
		first := takes(t, a, "org_a", 40)
		for range 300 {
			time.Sleep(time.Second)
			frees(t, b, "org_b", takes(t, b, "org_b", 1))
		}
		report := reported(t, store, "org_a")
		require.NotNil(t, report)
		assert.EqualValues(t, 40, report["held"].Int())
		assert.WithinDuration(t, time.Now(), time.UnixMilli(report["at"].Int()), 10*time.Second)
		frees(t, of(store, 60), "org_a", first)
		for range 10 {
			time.Sleep(time.Second)
			frees(t, b, "org_b", takes(t, b, "org_b", 1))
		}
		assert.Nil(t, reported(t, store, "org_a"))
	})
}

// TestRunningAttemptsKeepTheReport of their workspace.
func TestRunningAttemptsKeepTheReport(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, store table.Table) {
		a := shared(store, 60, 100)
		takes(t, a, "org_a", 40)
		for range 60 {
			time.Sleep(5 * time.Second)
			a.Tend(t.Context(), "org_a")
		}
		assert.WithinDuration(t, time.Now(), time.UnixMilli(reported(t, store, "org_a")["at"].Int()), 10*time.Second)
		assert.EqualValues(t, 40, reported(t, store, "org_a")["held"].Int())
	})
}

// TestVoidReports have no effect: old ones, and those of a clock that is wrong.
func TestVoidReports(t *testing.T) {
	t.Parallel()
	for age, limit := range map[time.Duration]int{0: 7, 30 * time.Second: 7, 2 * time.Minute: 60, -2 * time.Minute: 60} {
		bubble(t, func(t *testing.T, store table.Table) {
			at := time.Now().Add(-age)
			require.NoError(t, store.Put(t.Context(), table.Put{Item: table.Item{
				"pk": table.V(reports), "sk": table.V("org_a"), "at": table.V(at.UnixMilli()), "due": table.V(time.Now().Add(time.Hour).UnixMilli()),
				"held": table.V(7), "wants": table.V(60), "may": table.V(7), "below": table.V(7),
			}}))
			assert.Equal(t, limit, shared(store, 60, 100).Limit(t.Context(), "org_a").Slots, age)
		})
	}
}

// TestVoidReportIsRenewed before its workspace takes slots: nobody has worked on
// slots for long.
func TestVoidReportIsRenewed(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, store table.Table) {
		takes(t, shared(store, 60, 80), "org_a", 70)
		takes(t, shared(store, 60, 80), "org_b", 70)
		time.Sleep(10 * time.Minute)
		b := shared(store, 60, 80)
		assert.Less(t, b.Limit(t.Context(), "org_b").Slots, 30)
		assert.LessOrEqual(t, len(takes(t, b, "org_b", 70)), 8)
	})
}

// unread is a table of which the reports cannot be read.
type unread struct {
	table.Table
	fails *atomic.Bool
}

func (u unread) Query(ctx context.Context, q table.Query) (table.Page, error) {
	if q.PK == reports && u.fails.Load() {
		return table.Page{}, errBroken
	}
	return u.Table.Query(ctx, q)
}

// TestReportsCannotBeRead: what was known of them holds for a minute, then the
// workspaces' own limits alone.
func TestReportsCannotBeRead(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, store table.Table) {
		var fails atomic.Bool
		s := shared(unread{store, &fails}, 60, 40)
		taken := takes(t, s, "org_a", 100)
		assert.Len(t, taken, 38)
		fails.Store(true)
		time.Sleep(30 * time.Second)
		assert.Empty(t, takes(t, s, "org_a", 1))
		assert.Equal(t, 38, s.Limit(t.Context(), "org_a").Slots)
		time.Sleep(time.Minute)
		assert.Equal(t, 40, s.Limit(t.Context(), "org_a").Slots)
		assert.Len(t, takes(t, s, "org_a", 100), 2, "no workspace has more than all")
	})
}

// counting counts how often slots are counted.
type counting struct {
	table.Table
	counts *atomic.Int64
}

func (c counting) BatchGet(ctx context.Context, keys []table.Key, how ...table.ReadOption) ([]table.Item, error) {
	c.counts.Add(1)
	return c.Table.BatchGet(ctx, keys, how...)
}

// TestOneProcessCounts when a report is due, of many that know of it.
func TestOneProcessCounts(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, store table.Table) {
		var counts atomic.Int64
		takes(t, shared(store, 60, 100), "org_a", 20)
		procs := make([]*slots.Slots, 10)
		taken := make([][]slots.Slot, 10)
		time.Sleep(500 * time.Millisecond)
		for i := range procs {
			procs[i] = shared(counting{store, &counts}, 60, 100)
			procs[i].Limit(t.Context(), "org_a")
			taken[i] = takes(t, of(store, 60), "org_a", 1)
		}
		time.Sleep(700 * time.Millisecond)
		for i, s := range procs {
			frees(t, s, "org_a", taken[i])
		}
		assert.EqualValues(t, 1, counts.Load())
	})
}

// TestFewSlotsAreNotReported: a workspace that holds few costs no writes of
// reports, and few counts.
func TestFewSlotsAreNotReported(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, store table.Table) {
		var counts atomic.Int64
		s := shared(counting{store, &counts}, 60, 100)
		for range 600 {
			frees(t, s, "org_a", takes(t, s, "org_a", 3))
			time.Sleep(time.Second)
		}
		page, err := store.Query(t.Context(), table.Query{PK: reports})
		require.NoError(t, err)
		assert.Empty(t, page.Items)
		assert.LessOrEqual(t, counts.Load(), int64(16))
	})
}

// between is a table that does something before a write of a report.
type between struct {
	table.Table
	put, del func()
}

func (b *between) Put(ctx context.Context, put table.Put) error {
	if do := b.put; do != nil && put.Target().PK == reports {
		b.put = nil
		do()
	}
	return b.Table.Put(ctx, put)
}

func (b *between) Delete(ctx context.Context, del table.Delete) error {
	if do := b.del; do != nil && del.Key.PK == reports {
		b.del = nil
		do()
	}
	return b.Table.Delete(ctx, del)
}

// TestWorkspacesThatAskAtOnce: one asks while another one's answer is not written
// yet.
func TestWorkspacesThatAskAtOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, store table.Table) {
		b := shared(store, 60, 100)
		takes(t, b, "org_b", 6)
		over := &between{Table: store}
		a := shared(over, 60, 100)
		takes(t, a, "org_a", 6)
		time.Sleep(300 * time.Millisecond)
		var second []slots.Slot
		over.put = func() { second = takes(t, b, "org_b", 100) }
		first := takes(t, a, "org_a", 100)
		assert.NotEmpty(t, second)
		assert.LessOrEqual(t, 6+len(second), 48, "half, as the other asks as well")
		assert.GreaterOrEqual(t, 6+len(first), 47)
	})
	bubble(t, func(t *testing.T, store table.Table) {
		a, b := shared(store, 60, 100), shared(store, 60, 100)
		for range 20 { // until it has asked, and may take more than it has yet
			first := takes(t, a, "org_a", 1)
			require.NotEmpty(t, first)
			if may := reported(t, store, "org_a")["may"]; may.Int() == 60 {
				break
			}
		}
		assert.LessOrEqual(t, len(takes(t, b, "org_b", 100)), 40, "the other one may have 60")
		assert.GreaterOrEqual(t, len(takes(t, a, "org_a", 100)), 30)
	})
}

// TestRenewedReportIsKept: a process that counted for long neither replaces nor
// removes what another one has written since.
func TestRenewedReportIsKept(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, store table.Table) {
		over := &between{Table: store}
		slow := shared(over, 60, 100)
		taken := takes(t, slow, "org_a", 20)
		renew := func() {
			_, err := store.Update(t.Context(), table.Update{Key: table.Key{PK: reports, SK: "org_a"}, Do: []table.Action{
				table.Set("due", time.Now().Add(time.Minute).UnixMilli()), table.Set("held", 55),
			}})
			assert.NoError(t, err)
		}
		over.put = renew
		time.Sleep(3 * time.Second)
		slow.Tend(t.Context(), "org_a")
		assert.Nil(t, over.put, "it has counted")
		assert.EqualValues(t, 55, reported(t, store, "org_a")["held"].Int())
		time.Sleep(time.Minute)
		over.del = renew
		frees(t, of(store, 60), "org_a", taken)
		time.Sleep(10 * time.Second)
		slow.Tend(t.Context(), "org_a")
		assert.Nil(t, over.del, "it has counted")
		assert.NotNil(t, reported(t, store, "org_a"))
	})
}

// TestRoomIsToldOnce: a workspace in which nodes wait may take what its report
// leaves, once for each process and report.
func TestRoomIsToldOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, store table.Table) {
		at := time.Now()
		tell := func(held, wants, may int) {
			time.Sleep(3 * time.Second)
			require.NoError(t, store.Put(t.Context(), table.Put{Item: table.Item{
				"pk": table.V(reports), "sk": table.V("org_a"), "at": table.V(time.Now().UnixMilli()), "due": table.V(at.Add(time.Hour).UnixMilli()),
				"held": table.V(held), "wants": table.V(wants), "may": table.V(may), "below": table.V(may),
			}}))
		}
		s, ctx := shared(store, 60, 100), t.Context()
		tell(10, 60, 13)
		assert.Equal(t, 2, s.Room(ctx, "org_a", 2))
		assert.Equal(t, 1, s.Room(ctx, "org_a", 2))
		assert.Zero(t, s.Room(ctx, "org_a", 2))
		tell(11, 60, 13)
		assert.Equal(t, 2, s.Room(ctx, "org_a", 4))
		tell(20, 60, 13)
		assert.Zero(t, s.Room(ctx, "org_a", 4))
		tell(10, 10, 13)
		assert.Zero(t, s.Room(ctx, "org_a", 4), "nobody waits")
		assert.Zero(t, s.Room(ctx, "org_b", 4))
		assert.Zero(t, of(store, 60).Room(ctx, "org_a", 4))
	})
}

// TestUnlimitedWorkspaces are limited by what all may hold, if that is.
func TestUnlimitedWorkspaces(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, store table.Table) {
		assert.False(t, of(store, -1).Limits("org_a"))
		s := shared(store, -1, 40)
		assert.True(t, s.Limits("org_a"))
		assert.Len(t, takes(t, s, "org_a", 100), 38)
		assert.Empty(t, takes(t, shared(store, 0, 40), "org_b", 1))
	})
}

// TestNoWorkspaceHasTheReports: keys of a workspace begin with its id.
func TestNoWorkspaceHasTheReports(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, store table.Table) {
		takes(t, shared(store, 60, 100), "org_a", 20)
		assert.NotNil(t, reported(t, store, "org_a"))
		assert.NotContains(t, reports, "org_")
	})
}
