package launch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/localstack/proof/faults"
	"millrace/localstack/proof/fixture"
	"millrace/shared/account/audit"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/launch"
	"millrace/shared/run/registry/registrytest"
	"millrace/shared/run/runstate"
)

var instant = time.Date(2026, 3, 29, 1, 30, 0, 0, time.UTC)

// nightly returns an occurrence of a schedule, some days later.
func nightly(days int) *launch.Occurrence {
	return &launch.Occurrence{Kind: launch.Schedule, ID: "nightly", Instant: instant.AddDate(0, 0, days)}
}

func of(o *launch.Occurrence) launch.Request {
	return launch.Request{Flow: "f", Version: "1", Occurrence: o}
}

// runs returns the number of audit entries of each run of the workspace, by id.
func (k *keys) runs() map[string]int {
	out := map[string]int{}
	for item, err := range table.All(k.ctx, k.store, table.Query{Index: table.ByList, PK: org + "#runs##"}) {
		require.NoError(k.t, err)
		_, id, _ := runstate.ParseRunKey(item.Key().PK)
		out[id] = 0
	}
	for r, err := range audit.Entries(k.ctx, k.store, org, time.Time{}, time.Time{}) {
		require.NoError(k.t, err)
		if r.ResourceType == "run" {
			out[r.ResourceID]++
		}
	}
	return out
}

// TestOccurrenceMakesOneRunUnderFaults requests few occurrences from several
// processes at once, with a table that fails: each makes one run, and every
// response names it.
func TestOccurrenceMakesOneRunUnderFaults(t *testing.T) {
	t.Parallel()
	const occurrences = 4
	failed := 0
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			k := newKeys(t)
			plan := faults.NewPlan(t, seed, faults.Rates{Throttle: .03, Before: .03, After: .08, Conflict: .15}, k.store, clock.System{})
			gate := faults.NewSteps()
			answers := make([]map[string]bool, occurrences)
			for i := range answers {
				answers[i] = map[string]bool{}
			}
			var wg sync.WaitGroup
			ask := func(l *launch.Launcher, i int) error {
				run, err := l.Accept(k.ctx, org, of(nightly(i)))
				if err == nil {
					k.mu.Lock()
					defer k.mu.Unlock()
					answers[i][run.ID] = true
				}
				return err
			}
			for client := range 4 {
				l := k.launcher(plan.Process(fmt.Sprint("process", client), gate).Table())
				rng := rand.New(rand.NewPCG(seed, uint64(client)))
				wg.Go(func() {
					for range 8 {
						if ask(l, rng.IntN(occurrences)) != nil {
							k.mu.Lock()
							failed++
							k.mu.Unlock()
						}
					}
				})
			}
			over := make(chan struct{})
			go func() {
				wg.Wait()
				close(over)
			}()
			gate.Play(rand.New(rand.NewPCG(seed, 99)), synctest.Wait, time.Second, over)
			want := map[string]int{}
			for i := range occurrences {
				require.NoError(t, ask(k.launcher(k.store), i))
				require.Len(t, answers[i], 1, "seed %d: runs of occurrence %d", seed, i)
				for id := range answers[i] {
					want[id] = 1
				}
			}
			require.Len(t, want, occurrences)
			require.Equal(t, want, k.runs(), "seed %d: each run has one audit entry", seed)
		})
	}
	assert.Positive(t, failed, "no fault was met")
}

// TestOccurrenceMakesOneRunAfterCrash makes the process die before and after
// each write: there is one run after the next request.
func TestOccurrenceMakesOneRunAfterCrash(t *testing.T) {
	t.Parallel()
	for _, fault := range []registrytest.Fault{registrytest.Before, registrytest.After} {
		for n, met := 0, true; met; n++ {
			k := newKeys(t)
			broken := registrytest.Wrap(k.store)
			broken.Break(n, fault)
			first, err := k.launcher(broken).Accept(k.ctx, org, of(nightly(0)))
			met = broken.Heal()
			assert.Equal(t, met, err != nil)
			require.False(t, n == 0 && !met, "it wrote nothing")
			run, err := k.launcher(k.store).Accept(k.ctx, org, of(nightly(0)))
			require.NoError(t, err)
			if !met {
				assert.Equal(t, first.ID, run.ID)
			}
			assert.Equal(t, map[string]int{run.ID: 1}, k.runs())
		}
	}
}

// TestConcurrentRequestsOfOccurrence checks that the later of two requests
// returns the run of the other.
func TestConcurrentRequestsOfOccurrence(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	var first runstate.Run
	a := &around{Table: k.store, before: func() {
		var err error
		first, err = k.launcher(k.store).Accept(k.ctx, org, of(nightly(0)))
		require.NoError(t, err)
	}}
	second, err := k.launcher(a).Accept(k.ctx, org, of(nightly(0)))
	require.NoError(t, err)
	assert.Equal(t, first.ID, second.ID)
	assert.Equal(t, map[string]int{first.ID: 1}, k.runs())
}

// contended is a table whose first transactions conflict with another.
type contended struct {
	table.Table
	conflicts int
}

func (c *contended) Transact(ctx context.Context, writes ...table.Write) error {
	if c.conflicts--; c.conflicts >= 0 {
		return &table.TransactionError{Reasons: []table.Reason{{Err: table.ErrConflict}}}
	}
	return c.Table.Transact(ctx, writes...)
}

// TestOccurrenceWaitsForConcurrentTransaction checks that a request waits for a
// while for the conflicting transaction of another.
func TestOccurrenceWaitsForConcurrentTransaction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newKeys(t)
		_, err := k.launcher(&contended{k.store, 3}).Accept(k.ctx, org, of(nightly(0)))
		require.NoError(t, err)
		assert.Len(t, k.runs(), 1)
		_, err = k.launcher(&contended{k.store, 1000}).Accept(k.ctx, org, of(nightly(1)))
		assert.Equal(t, errs.Conflict, errs.CodeOf(err))
		ctx, cancel := context.WithCancelCause(k.ctx)
		cancel(errors.New("gone"))
		_, err = k.launcher(&contended{k.store, 1000}).Accept(ctx, org, of(nightly(1)))
		require.Error(t, err)
		assert.Len(t, k.runs(), 1)
	})
}

// TestOccurrenceDoesNotExpire checks that a request a year later returns the
// run as it is, although it has ended and its deployment is gone.
func TestOccurrenceDoesNotExpire(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	k.deploy("d", "f")
	now := time.Now()
	l := k.launcher(k.store)
	l.Clock = clock.Func(func() time.Time { return now })
	req := launch.Request{Deployment: "d", Occurrence: nightly(0)}
	first, err := l.Accept(k.ctx, org, req)
	require.NoError(t, err)
	require.Len(t, k.sent(events.Tasks("nano")), 1)

	again, err := l.Accept(k.ctx, org, req)
	require.NoError(t, err)
	assert.Equal(t, first.ID, again.ID)
	assert.Equal(t, []events.Run{{Kind: events.RunStart, Org: org, Run: first.ID, Timeout: &first.Timeout}}, k.sent(events.Tasks("nano")), "its message may be lost")

	k.deploy("d", "")
	now = now.AddDate(1, 0, 0)
	_, err = k.store.Update(k.ctx, table.Update{Key: first.Key, Do: []table.Action{table.Set(runstate.RunStatus, string(engine.Failed))}})
	require.NoError(t, err)
	again, err = l.Accept(k.ctx, org, req)
	require.NoError(t, err)
	assert.Equal(t, first.ID, again.ID)
	assert.Equal(t, engine.Failed, again.Status)
	assert.Empty(t, k.sent(events.Tasks("nano")))
}

// TestOccurrencesAreReadConsistently uses a table whose other reads are stale.
func TestOccurrencesAreReadConsistently(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	meter := &table.Meter{}
	l := k.launcher(table.Metered(faults.Lagging(k.store), meter))
	first, err := l.Accept(k.ctx, org, of(nightly(0)))
	require.NoError(t, err)
	meter.Reset()
	again, err := l.Accept(k.ctx, org, of(nightly(0)))
	require.NoError(t, err)
	assert.Equal(t, first.ID, again.ID)
	assert.Zero(t, meter.Usage().Total().Write, "no transaction was tried")
}

// TestDifferentOccurrencesMakeDifferentRuns checks that each occurrence makes
// one run, with its trigger source, logical date and audit entry.
func TestDifferentOccurrencesMakeDifferentRuns(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	l := k.launcher(k.store)
	seen := map[string]bool{}
	for i, c := range []struct {
		occurrence launch.Occurrence
		metadata   string
	}{
		{*nightly(0), `{"schedule_id":"nightly","instant":"2026-03-29T01:30:00.000Z"}`},
		{*nightly(1), `{"schedule_id":"nightly","instant":"2026-03-30T01:30:00.000Z"}`},
		{launch.Occurrence{Kind: launch.Schedule, ID: "hourly", Instant: instant}, `{"schedule_id":"hourly","instant":"2026-03-29T01:30:00.000Z"}`},
		{launch.Occurrence{Kind: launch.Backfill, ID: "nightly"}, `{"backfill_id":"nightly","index":"0"}`},
		{launch.Occurrence{Kind: launch.Backfill, ID: "nightly", Index: 1}, `{"backfill_id":"nightly","index":"1"}`},
		{launch.Occurrence{Kind: launch.Sensor, ID: "nightly", Event: "1"}, `{"sensor_id":"nightly","event":"1"}`},
		{launch.Occurrence{Kind: launch.Sensor, ID: "nightly\x00", Event: "1"}, `{"sensor_id":"nightly\u0000","event":"1"}`},
		{launch.Occurrence{Kind: launch.Sensor, ID: "nightly", Event: "\x001"}, `{"sensor_id":"nightly","event":"\u00001"}`},
		{launch.Occurrence{Kind: launch.Sensor, ID: "nightly", Event: strings.Repeat("x", 3000)}, ``},
	} {
		run, err := l.Accept(k.ctx, org, of(&c.occurrence))
		require.NoError(t, err)
		assert.False(t, seen[run.ID], "%d: %+v", i, c.occurrence)
		seen[run.ID] = true
		assert.Equal(t, c.occurrence.Kind, run.Trigger)
		again, err := l.Accept(k.ctx, org, of(&c.occurrence))
		require.NoError(t, err)
		assert.Equal(t, run.ID, again.ID)
		input, err := runstate.LoadInput(k.ctx, k.store, k.objects, org, run.ID)
		require.NoError(t, err)
		if c.occurrence.Kind == launch.Schedule {
			assert.Equal(t, clock.Format(c.occurrence.Instant), input.LogicalDate)
		} else {
			assert.Equal(t, run.CreatedAt.String(), input.LogicalDate)
		}
		page, err := audit.List(k.ctx, k.store, org, audit.Query{ResourceType: "run", ResourceID: run.ID, Limit: 2})
		require.NoError(t, err)
		require.Len(t, page.Items, 1)
		if c.metadata != "" {
			assert.JSONEq(t, c.metadata, page.Items[0].Metadata)
		}
	}
	abroad := nightly(0)
	abroad.Instant = abroad.Instant.In(time.FixedZone("", 7200))
	run, err := l.Accept(k.ctx, org, of(abroad))
	require.NoError(t, err)
	assert.True(t, seen[run.ID], "the same instant elsewhere")
}

// TestOccurrenceBelongsToOneWorkspace checks that a schedule of the same name
// in another workspace makes its own run.
func TestOccurrenceBelongsToOneWorkspace(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	const other = "org_other"
	ctx := fixture.Owner(t.Context(), other)
	k.register(ctx)
	l := k.launcher(k.store)
	one, err := l.Accept(k.ctx, org, of(nightly(0)))
	require.NoError(t, err)
	two, err := l.Accept(ctx, other, of(nightly(0)))
	require.NoError(t, err)
	assert.NotEqual(t, one.ID, two.ID)
	assert.Equal(t, other, two.Org)
}

// TestIncompleteOccurrencesAreRejected checks that they make no run.
func TestIncompleteOccurrencesAreRejected(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	l := k.launcher(k.store)
	for _, o := range []launch.Occurrence{
		{}, {Kind: launch.Schedule, ID: "s"}, {Kind: launch.Schedule, Instant: instant}, {Kind: launch.Backfill, ID: "b", Index: -1},
		{Kind: launch.Sensor, Event: "e"}, {Kind: launch.Sensor}, {Kind: launch.Manual, ID: "m", Instant: instant},
	} {
		_, err := l.Accept(k.ctx, org, of(&o))
		assert.Equal(t, errs.Invalid, errs.CodeOf(err), "%+v", o)
	}
	req := of(nightly(0))
	req.Key = "key"
	_, err := l.Accept(k.ctx, org, req)
	assert.Equal(t, errs.Invalid, errs.CodeOf(err))
	req = of(nightly(0))
	req.Version = "2"
	_, err = l.Accept(k.ctx, org, req)
	assert.Equal(t, errs.NotFound, errs.CodeOf(err))
	assert.Empty(t, k.runs())
	_, err = l.Accept(k.ctx, org, of(nightly(0)))
	require.NoError(t, err, "a refused request takes nothing")
}

// TestEventsWithoutID checks that each request of a sensor without an event's id
// makes a run, which tells of its sensor.
func TestEventsWithoutID(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	l := k.launcher(k.store)
	ctx := tenant.With(k.ctx, tenant.Principal{OrgID: org}) // of nobody
	for range 2 {
		run, err := l.Accept(ctx, org, of(&launch.Occurrence{Kind: launch.Sensor, ID: "s"}))
		require.NoError(t, err)
		assert.Equal(t, []string{launch.Sensor, "sensor:s"}, []string{run.Trigger, run.By})
		page, err := audit.List(k.ctx, k.store, org, audit.Query{ResourceType: "run", ResourceID: run.ID, Limit: 2})
		require.NoError(t, err)
		require.Len(t, page.Items, 1)
		assert.JSONEq(t, `{"sensor_id":"s"}`, page.Items[0].Metadata)
	}
	assert.Len(t, k.runs(), 2)
}

// TestEventIsForgotten checks that the id of an event makes one run in the time
// that it is remembered, and another one afterwards.
func TestEventIsForgotten(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	l := k.launcher(k.store)
	now := time.Now()
	l.Clock = clock.Func(func() time.Time { return now })
	event := of(&launch.Occurrence{Kind: launch.Sensor, ID: "s", Event: "e", Within: 24 * time.Hour})
	var made []string
	for _, later := range []time.Duration{0, 23 * time.Hour, time.Hour + time.Second, 23 * time.Hour} {
		now = now.Add(later)
		run, err := l.Accept(k.ctx, org, event)
		require.NoError(t, err)
		made = append(made, run.ID)
	}
	assert.Equal(t, made[0], made[1])
	assert.NotEqual(t, made[1], made[2])
	assert.Equal(t, made[2], made[3])
}

// TestVoidOccurrenceMakesNoRun: an occurrence is void or has a run, whichever of
// both is asked for first, or at once.
func TestVoidOccurrenceMakesNoRun(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	l := k.launcher(k.store)
	for range 2 {
		_, made, err := l.Void(k.ctx, org, *nightly(0))
		require.NoError(t, err)
		assert.False(t, made)
		_, err = l.Accept(k.ctx, org, of(nightly(0)))
		assert.Equal(t, errs.Conflict, errs.CodeOf(err))
		require.NotErrorIs(t, err, table.ErrConflict, "it is final")
	}
	assert.Empty(t, k.runs())
	run, err := l.Accept(k.ctx, org, of(nightly(1)))
	require.NoError(t, err)
	kept, made, err := l.Void(k.ctx, org, *nightly(1))
	require.NoError(t, err)
	assert.Equal(t, []any{true, run.ID}, []any{made, kept.ID})

	runs, void := 0, 0
	for day := 2; day < 30; day++ {
		var all sync.WaitGroup
		var accepted, voided error
		var made bool
		all.Go(func() { _, accepted = l.Accept(k.ctx, org, of(nightly(day))) })
		all.Go(func() { _, made, voided = l.Void(k.ctx, org, *nightly(day)) })
		all.Wait()
		require.NoError(t, voided)
		assert.Equal(t, made, accepted == nil, "%v", accepted)
		if made {
			runs++
		} else {
			void++
		}
	}
	assert.Len(t, k.runs(), 1+runs)
	assert.Equal(t, 28, runs+void)
	_, _, err = l.Void(k.ctx, org, launch.Occurrence{Kind: launch.Backfill})
	assert.Equal(t, errs.Invalid, errs.CodeOf(err))
}
