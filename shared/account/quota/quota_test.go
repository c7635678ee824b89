package quota_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/localstack/proof/memory"
	"millrace/localstack/proof/seed"
	"millrace/shared/account/quota"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

func TestMain(m *testing.M) {
	seed.Fix()
	m.Run()
}

// world is a table shared by processes, with things that have a quota.
type world struct {
	table  *faulty
	values quota.Values

	mu     sync.Mutex
	now    time.Time
	live   int64
	counts int
	slow   time.Duration // duration of a count
}

// faulty loses the responses of some updates, or rejects them.
type faulty struct {
	table.Table
	mu     sync.Mutex
	before int         // number of updates to fail
	after  int         // number of updates to fail after they were applied
	hook   func(n int) // called before the n-th update
	n      int
}

func (f *faulty) Update(ctx context.Context, u table.Update) (table.Item, error) {
	f.mu.Lock()
	f.n++
	n, hook := f.n, f.hook
	f.mu.Unlock()
	if hook != nil {
		hook(n)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.before > 0 {
		f.before--
		return nil, table.ErrThrottled
	}
	item, err := f.Table.Update(ctx, u)
	if f.after > 0 && err == nil {
		f.after--
		return nil, table.ErrThrottled
	}
	return item, err
}

func newWorld(t memory.T, settings ...string) *world {
	values, err := quota.ParseValues(settings)
	require.NoError(t, err)
	w := &world{values: values, now: time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC)}
	w.table = &faulty{Table: memory.Table(t, clock.Func(w.Now))}
	return w
}

func (w *world) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) count(context.Context) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts++
	w.now = w.now.Add(w.slow)
	return w.live, nil
}

func (w *world) add(n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.live += n
}

func (w *world) process() *quota.Quota {
	return quota.New(quota.Config{Table: w.table, Clock: clock.Func(w.Now), Values: w.values, Log: slog.New(slog.DiscardHandler)})
}

// make creates n things if there is room for them.
func (w *world) make(q *quota.Quota, name quota.Name, n int64) error {
	err := q.Take(context.Background(), name, "acme", n, w.count)
	if err == nil {
		w.add(n)
	}
	return err
}

func TestQuotaIsExact(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "api-keys=5")
	w.live = 2
	a, b := w.process(), w.process()
	require.NoError(t, w.make(a, quota.APIKeys, 1))
	require.NoError(t, w.make(b, quota.APIKeys, 1))
	require.NoError(t, w.make(a, quota.APIKeys, 1))
	for _, q := range []*quota.Quota{a, b, w.process()} {
		err := w.make(q, quota.APIKeys, 1)
		e, ok := errors.AsType[*errs.Error](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, errs.TooMany, e.Code)
		assert.InDelta(t, time.Second, e.RetryAfter, float64(time.Second))
		assert.Equal(t, "The workspace has 5 API keys; at most 5 are allowed (limit api-keys). Delete some, or ask the operator to raise the limit", e.Message)
	}
	w.add(-1)
	w.advance(time.Second)
	require.NoError(t, w.make(b, quota.APIKeys, 1), "one was deleted")
	require.Error(t, w.make(b, quota.APIKeys, 1))
}

func TestRefusalsAreCheap(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "unfinished-runs=10")
	w.live = 10
	q := w.process()
	for range 1000 {
		require.Error(t, w.make(q, quota.UnfinishedRuns, 1))
	}
	assert.Equal(t, 1, w.counts, "it is not counted for each")
	for range 10 {
		require.Error(t, w.make(w.process(), quota.UnfinishedRuns, 1))
	}
	assert.Equal(t, 1, w.counts, "nor by each process")
	w.slow = time.Second
	w.advance(5 * time.Second)
	require.Error(t, w.make(q, quota.UnfinishedRuns, 1))
	w.advance(6 * time.Second)
	require.Error(t, w.make(q, quota.UnfinishedRuns, 1))
	assert.Equal(t, 2, w.counts, "what takes a second to count is counted seldom")
}

func TestRequestLargerThanRoomIsAdmittedWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "queued-tasks=100", "artifact-bytes=100")
	q := w.process()
	require.NoError(t, w.make(q, quota.QueuedTasks, 10_000), "there was room")
	require.Error(t, w.make(q, quota.QueuedTasks, 1))
	w.live = 99
	w.advance(time.Minute)
	require.NoError(t, w.make(q, quota.QueuedTasks, 50))
	w.live = 40
	err := w.make(q, quota.ArtifactBytes, 61)
	require.ErrorContains(t, err, "The workspace has 40 bytes of artifacts, and 61 more were asked for; at most 100 are allowed (limit artifact-bytes).")
	require.NoError(t, w.make(q, quota.ArtifactBytes, 60), "a smaller one fits")
	require.Error(t, w.make(q, quota.ArtifactBytes, 1))
}

func TestChangedValueAppliesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "flows=2")
	q := w.process()
	require.NoError(t, w.make(q, quota.Flows, 1))
	require.NoError(t, w.make(q, quota.Flows, 1))
	require.Error(t, w.make(q, quota.Flows, 1))
	w.values = quota.Values{quota.Flows: 3}
	q = w.process()
	require.NoError(t, w.make(q, quota.Flows, 1), "raised")
	require.Error(t, w.make(q, quota.Flows, 1))
	w.values = quota.Values{quota.Flows: -1}
	q = w.process()
	require.NoError(t, w.make(q, quota.Flows, 1000), "taken away")
}

func TestClockFarAheadBlocksNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "drafts=1")
	w.live = 1
	ahead := quota.New(quota.Config{
		Table: w.table, Clock: clock.Func(func() time.Time { return w.Now().Add(24 * time.Hour) }), Values: w.values,
	})
	require.Error(t, w.make(ahead, quota.Drafts, 1))
	w.live = 0
	require.NoError(t, w.make(w.process(), quota.Drafts, 1))
}

func TestInterruptedCountIsTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "flows=10")
	dead, cancel := context.WithCancel(t.Context())
	err := w.process().Take(dead, quota.Flows, "acme", 1, func(ctx context.Context) (int64, error) {
		cancel()
		w.table.mu.Lock()
		w.table.before = 1 // the process dies without a response
		w.table.mu.Unlock()
		return 0, ctx.Err()
	})
	require.ErrorIs(t, err, context.Canceled)
	w.advance(31 * time.Second)
	require.NoError(t, w.make(w.process(), quota.Flows, 1))
	assert.Equal(t, 1, w.counts)
}

// silent is a table that stops answering updates once it is quiet.
type silent struct {
	table.Table
	quiet bool
}

func (s *silent) Update(ctx context.Context, u table.Update) (table.Item, error) {
	if s.quiet {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Table.Update(ctx, u)
}

func TestInterruptedCountDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "flows=10")
		s := &silent{Table: w.table}
		q := quota.New(quota.Config{Table: s, Clock: clock.System{}, Values: w.values, Log: slog.New(slog.DiscardHandler)})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := q.Take(ctx, quota.Flows, "acme", 1, func(ctx context.Context) (int64, error) {
			s.quiet = true
			<-ctx.Done()
			return 0, ctx.Err()
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.LessOrEqual(t, time.Since(began), 3*time.Second, "a caller with a lease has it no longer")
	})
}

// drawn takes permits while the things are being counted.
func (w *world) drawn(t *testing.T, n int64) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	return w.process().Take(ctx, quota.ArtifactBytes, "acme", n, w.count)
}

func TestOnlyOneProcessCountsAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "artifact-bytes=5")
	w.table.hook = func(n int) {
		if n == 2 { // the first has closed the room to count
			require.NoError(t, w.drawn(t, 5))
		}
	}
	require.Error(t, w.drawn(t, 5), "another did so meanwhile, and has taken all")
}

func TestNoPermitIsDrawnDuringCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "artifact-bytes=10")
	require.NoError(t, w.make(w.process(), quota.ArtifactBytes, 7))
	w.advance(time.Minute)
	var meanwhile error
	err := w.process().Take(t.Context(), quota.ArtifactBytes, "acme", 5, func(context.Context) (int64, error) {
		meanwhile = w.drawn(t, 3) // there were 3 left
		return 7, nil
	})
	require.Error(t, err)
	require.ErrorIs(t, meanwhile, context.DeadlineExceeded)
	require.NoError(t, w.drawn(t, 3))
}

func TestCountBeyondItsLeaseIsDiscarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "artifact-bytes=5")
	err := w.process().Take(t.Context(), quota.ArtifactBytes, "acme", 5, func(context.Context) (int64, error) {
		w.advance(31 * time.Second)
		require.NoError(t, w.drawn(t, 5))
		return 0, nil
	})
	require.Error(t, err, "another has counted since, and has taken all")
}

func TestWaitForCountIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "flows=10")
	counting, counted := make(chan struct{}), make(chan struct{})
	go func() {
		_ = w.process().Take(context.Background(), quota.Flows, "acme", 1, func(context.Context) (int64, error) {
			close(counting)
			<-counted
			return 0, nil
		})
	}()
	<-counting
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, w.process().Take(ctx, quota.Flows, "acme", 1, w.count), context.DeadlineExceeded)
	close(counted)
	require.NoError(t, w.make(w.process(), quota.Flows, 1), "it is counted meanwhile")
	assert.Zero(t, w.counts, "by the other")
}

// TestSimulatedQuota runs processes that create and delete things, crash with
// their slices between any two writes, and lose responses. There are never more
// things than the limit plus the outstanding slices, and once these have
// expired, every rejection is justified.
func TestSimulatedQuota(t *testing.T) {
	t.Parallel()
	rapid.Check(t, simulate)
}

func simulate(t *rapid.T) {
	limit := rapid.SampledFrom([]int64{1, 5, 300, 20_000}).Draw(t, "limit")
	w := newWorld(t)
	w.values = quota.Values{quota.UnfinishedRuns: limit}
	procs := make([]*quota.Quota, rapid.IntRange(1, 4).Draw(t, "processes"))
	for i := range procs {
		procs[i] = w.process()
	}
	slice := limit/20 + 1 + 2*(limit/10_000)
	slack := slice * int64(len(procs)-1) // the slices of the other processes
	credit := 2 * (limit / 10_000) * int64(len(procs))
	failed := false
	pick := func(t *rapid.T) int { return rapid.IntRange(0, len(procs)-1).Draw(t, "process") }
	t.Repeat(map[string]func(*rapid.T){
		"make": func(t *rapid.T) {
			q := procs[pick(t)]
			for range rapid.Int64Range(1, min(limit, 50)+10).Draw(t, "times") {
				if w.make(q, quota.UnfinishedRuns, 1) != nil {
					break
				}
			}
		},
		"all at once": func(*rapid.T) {
			var group sync.WaitGroup
			for _, q := range procs {
				group.Go(func() {
					for range 20 {
						_ = w.make(q, quota.UnfinishedRuns, 1)
					}
				})
			}
			group.Wait()
		},
		"come to nothing": func(t *rapid.T) {
			q := procs[pick(t)]
			for range 5 {
				_ = q.Take(context.Background(), quota.UnfinishedRuns, "acme", 1, w.count)
			}
		},
		"make many": func(t *rapid.T) {
			q := procs[pick(t)]
			for n := max(1, limit/50); w.make(q, quota.UnfinishedRuns, n) == nil; {
			}
		},
		"end": func(t *rapid.T) { w.live -= rapid.Int64Range(0, w.live).Draw(t, "ended") },
		"crash": func(t *rapid.T) {
			procs[pick(t)] = w.process()
			credit += 2 * (limit / 10_000)
		},
		"lose an answer": func(t *rapid.T) {
			w.table.after = 1
			_ = w.make(procs[pick(t)], quota.UnfinishedRuns, 1)
			w.table.after = 0
			slack, failed = slack+slice, true // it granted itself some
		},
		"fail": func(t *rapid.T) {
			w.table.before = 1
			_ = w.make(procs[pick(t)], quota.UnfinishedRuns, 1)
			w.table.before = 0
			slack, failed = slack+slice, true
		},
		"wait": func(t *rapid.T) {
			w.advance(time.Duration(rapid.IntRange(1, 40_000).Draw(t, "ms")) * time.Millisecond)
		},
		"settle": func(t *rapid.T) {
			w.advance(time.Minute)
			q := w.process() // all slices have expired
			for i := range procs {
				procs[i] = q
			}
			before := w.live
			err := w.make(q, quota.UnfinishedRuns, 1)
			require.True(t, err == nil || before >= limit, "rejected, though there are %d of %d", before, limit)
			require.True(t, err != nil || before < limit || limit >= 10_000 || failed, "let in, though there are %d of %d", before, limit)
			failed = failed && err == nil
			slack, credit = slice*int64(len(procs)), 2*(limit/10_000)*int64(len(procs))+max(0, w.live-limit)
		},
		"": func(t *rapid.T) {
			require.LessOrEqual(t, w.live, limit+slack+credit)
		},
	})
}

func TestRequestsAreCountedForUserAndWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "reads-per-minute=3", "writes-per-minute=2", "user-requests-per-minute=4")
	q, ctx := w.process(), t.Context()
	ada := tenant.Principal{OrgID: "acme", Email: "ada@acme.test"}
	require.NoError(t, q.Request(ctx, ada, true))
	require.NoError(t, q.Request(ctx, ada, true))
	bob := tenant.Principal{OrgID: "acme", Email: "bob@acme.test"}
	require.ErrorContains(t, q.Request(ctx, bob, true),
		"Too many requests that change something: at most 2 are allowed in a minute for a workspace (limit writes-per-minute). Try again in 60 s")
	require.NoError(t, q.Request(ctx, bob, false), "reading is another limit")
	ada.OrgID = "other"
	require.NoError(t, q.Request(ctx, ada, true))
	ada.OrgID = ""
	require.NoError(t, q.Request(ctx, ada, true))
	require.ErrorContains(t, q.Request(ctx, ada, false), "at most 4 are allowed in a minute for a user (limit user-requests-per-minute)")
	require.NoError(t, q.Request(ctx, tenant.Principal{OrgID: "third"}, true))
	w.advance(time.Minute)
	require.NoError(t, q.Request(ctx, ada, true))
}

func TestNilQuotaAdmitsEverything(t *testing.T) {
	t.Parallel()
	var q *quota.Quota
	require.NoError(t, q.Request(t.Context(), tenant.Principal{OrgID: "acme", Email: "a@b.test"}, true))
	require.NoError(t, q.Rate(t.Context(), quota.Runs, "acme"))
	require.NoError(t, q.Take(t.Context(), quota.Flows, "acme", 1, nil))
	require.NoError(t, q.Hold(quota.FlowVersions, 1<<40))
}

func TestHold(t *testing.T) {
	t.Parallel()
	q := newWorld(t, "flow-versions=2").process()
	require.NoError(t, q.Hold(quota.FlowVersions, 1))
	require.ErrorContains(t, q.Hold(quota.FlowVersions, 2), "The flow has 2 versions; at most 2 are allowed (limit flow-versions).")
}

func TestParseValues(t *testing.T) {
	t.Parallel()
	got, err := quota.ParseValues([]string{"flows=10", " api-keys = 0 ", "flows=20", "drafts=unlimited"})
	require.NoError(t, err)
	for name, want := range map[quota.Name]int64{quota.Flows: 20, quota.APIKeys: 0, quota.Deployments: 2000} {
		value, limited := got.Of(name)
		assert.True(t, limited)
		assert.Equal(t, want, value, name)
	}
	_, limited := got.Of(quota.Drafts)
	assert.False(t, limited)
	for setting, want := range map[string]string{
		"flows":                      `limit "flows" is not name=value`,
		"flow=1":                     `unknown limit "flow"; the limits are alert-rules, api-keys, artifact-bytes,`,
		"flows=-1":                   `limit flows: "-1" is neither a non-negative number nor "unlimited"`,
		"flows=1.5":                  `is neither`,
		"flows=99999999999999999999": `is neither`,
		"=1":                         `unknown limit ""`,

		"flows@org_01J5ZK3T9QH8C6W2V7N4B1M0XR=1":                `only audit-retention-days, run-retention-days, running-tasks can be set for one workspace`,
		"flow@org_01J5ZK3T9QH8C6W2V7N4B1M0XR=1":                 `unknown limit "flow"`,
		"run-retention-days@acme=1":                             `"acme" is no id of a workspace`,
		"run-retention-days@org_01J5ZK3T9QH8C6W2V7N4B1M0XR=0":   `is neither a number of days`,
		"run-retention-days@org_01J5ZK3T9QH8C6W2V7N4B1M0XR":     `is not name=value`,
		"plan@org_01J5ZK3T9QH8C6W2V7N4B1M0XR=free":              `unknown limit "plan"`,
		"run-retention-days@org_01J5ZK3T9QH8C6W2V7N4B1M0XR@x=1": `is no id of a workspace`,
	} {
		_, err := quota.ParseValues([]string{setting})
		assert.ErrorContains(t, err, want, setting)
	}
}

func TestRetentionOfOneWorkspace(t *testing.T) {
	t.Parallel()
	const short, long, other = "org_01J5ZK3T9QH8C6W2V7N4B1M0XA", "org_01J5ZK3T9QH8C6W2V7N4B1M0XB", "org_01J5ZK3T9QH8C6W2V7N4B1M0XC"
	at := time.Unix(1_700_000_000, 0)
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		settings []string
		want     map[string]time.Duration // 0: for ever
	}{
		"none":             {nil, map[string]time.Duration{short: 365 * day, other: 365 * day}},
		"one":              {[]string{"run-retention-days@" + short + "=1"}, map[string]time.Duration{short: day, other: 365 * day}},
		"with a plan":      {[]string{"run-retention-days@" + short + "=1", "plan=free"}, map[string]time.Duration{short: day, other: 30 * day}},
		"several":          {[]string{"run-retention-days@" + short + "=1", "run-retention-days@" + long + "=unlimited"}, map[string]time.Duration{short: day, long: 0}},
		"of another limit": {[]string{"audit-retention-days@" + short + "=1"}, map[string]time.Duration{short: 365 * day}},
	} {
		values, err := quota.ParseValues(c.settings)
		require.NoError(t, err, name)
		q := quota.New(quota.Config{Clock: clock.System{}, Values: values})
		for org, want := range c.want {
			kept, limited := q.Kept(org, quota.RunDays)
			assert.Equal(t, want != 0, limited, name)
			if !limited {
				assert.Zero(t, q.Expiry(org, quota.RunDays, at), name)
				continue
			}
			assert.Equal(t, want, kept, name)
			assert.Equal(t, at.Add(want).Unix(), q.Expiry(org, quota.RunDays, at), name)
		}
	}
}

// TestRunningTasksOfOneWorkspace: a workspace may have a limit of its own, above or
// below that of the others.
func TestRunningTasksOfOneWorkspace(t *testing.T) {
	t.Parallel()
	const few, many, other = "org_01J5ZK3T9QH8C6W2V7N4B1M0XA", "org_01J5ZK3T9QH8C6W2V7N4B1M0XB", "org_01J5ZK3T9QH8C6W2V7N4B1M0XC"
	for name, c := range map[string]struct {
		settings []string
		want     map[string]int64 // -1: unlimited
	}{
		"none":            {nil, map[string]int64{few: 1000}},
		"of all":          {[]string{"running-tasks=7"}, map[string]int64{few: 7, other: 7}},
		"of one":          {[]string{"running-tasks@" + few + "=3", "running-tasks=7", "running-tasks@" + many + "=90"}, map[string]int64{few: 3, many: 90, other: 7}},
		"one's unlimited": {[]string{"running-tasks@" + many + "=unlimited"}, map[string]int64{many: -1, other: 1000}},
		"one's limited":   {[]string{"running-tasks=unlimited", "running-tasks@" + few + "=0"}, map[string]int64{few: 0, other: -1}},
	} {
		values, err := quota.ParseValues(c.settings)
		require.NoError(t, err, name)
		q := quota.New(quota.Config{Clock: clock.System{}, Values: values})
		for org, want := range c.want {
			most, limited := q.Most(quota.RunningTasks, org)
			assert.Equal(t, want >= 0, limited, "%s: %s", name, org)
			assert.Equal(t, want, most, "%s: %s", name, org)
		}
	}
	var q *quota.Quota
	_, limited := q.Most(quota.RunningTasks, other)
	assert.False(t, limited)
}

func TestEveryLimitIsComplete(t *testing.T) {
	t.Parallel()
	seen := map[quota.Name]bool{}
	for _, l := range quota.Limits {
		assert.False(t, seen[l.Name], l.Name)
		seen[l.Name] = true
		assert.True(t, l.Default > 0 || (l.Monthly || l.Scope == quota.All) && l.Default == -1, l.Name)
		assert.NotEmpty(t, l.What, l.Name)
		counted := l.Per == 0 && !l.Monthly && !l.Days
		assert.Equal(t, counted, l.Advice != "", "%s: a quota says what to do", l.Name)
		assert.Equal(t, counted && l.Scope != quota.Flow, l.Again > 0, l.Name)
	}
}
