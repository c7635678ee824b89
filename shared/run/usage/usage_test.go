package usage_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/localstack/proof/memory"
	"millrace/localstack/proof/seed"
	"millrace/shared/account/quota"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/registry"
	"millrace/shared/run/registry/registrytest"
	"millrace/shared/run/runstate"
	"millrace/shared/run/usage"
)

func TestMain(m *testing.M) {
	seed.Fix()
	m.Run()
}

const (
	org  = "org_1"
	spec = `{"tasks":[
		{"name":"code","type":"python","entrypoint":"flow:main","tier":"small"},
		{"name":"each","type":"python","entrypoint":"flow:main","map_over":"[1, 2]"},
		{"name":"plain","type":"transform","config":{"expression":"1"}}],
		"on_failure":{"name":"alarm","type":"python","entrypoint":"flow:main"}}`
)

// world is a table with runs of one flow.
type world struct {
	t      require.TestingT
	table  table.Table
	broken error // of the next write of a ledger
	lost   error // of the next write of a ledger, after it was made
	mu     sync.Mutex
	now    time.Time
	hash   string
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

// failing is a table whose writes of ledgers may fail.
type failing struct {
	table.Table
	w *world
}

func (f failing) Put(ctx context.Context, p table.Put) error {
	f.w.mu.Lock()
	broken, lost := f.w.broken, f.w.lost
	f.w.broken, f.w.lost = nil, nil
	f.w.mu.Unlock()
	if broken != nil {
		return broken
	}
	return errors.Join(f.Table.Put(ctx, p), lost)
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, now: time.Date(2026, 11, 30, 22, 0, 0, 0, time.UTC)}
	w.table = failing{memory.Table(t, w), w}
	v := registrytest.Register(t, registrytest.Store(w.table, nil, w), org, "etl", "1", spec, org+"/artifacts/etl/1/a.zip")
	w.hash = v.SpecHash
	return w
}

func (w *world) meter() usage.Meter { return usage.Meter{Table: w.table, Clock: w} }

// start stores a run of a tier; given means that the tier was asked for.
func (w *world) start(mode string, given bool) runstate.Run {
	id := ids.New(w.Now())
	run := runstate.Run{
		Key: runstate.RunKey(org, id), ListEntries: runstate.Lists(org, "etl", "default", id), Org: org, ID: id, Flow: "etl", Version: "1",
		SpecHash: w.hash, Plan: engine.PlanVersion, Environment: "default", Mode: mode, ModeGiven: given, Status: engine.Running,
		CreatedAt: clock.ToMillis(w.Now()), StartedAt: clock.ToMillis(w.Now()),
	}
	require.NoError(w.t, w.table.Put(context.Background(), table.Put{Item: run}))
	return run
}

func (w *world) node(run runstate.Run, n engine.Node, node runstate.Node) {
	node.Key = runstate.NodeKey(org, run.ID, n)
	require.NoError(w.t, w.table.Put(context.Background(), table.Put{Item: node}))
}

func (w *world) end(run runstate.Run) {
	_, err := w.table.Update(context.Background(), table.Update{Key: run.Key, Do: []table.Action{
		table.Set(runstate.RunStatus, string(engine.Succeeded)), table.Set(runstate.RunEnded, w.Now().UnixMilli()),
	}})
	require.NoError(w.t, err)
}

func (w *world) of(at time.Time) usage.Month {
	month, err := w.meter().Of(context.Background(), org, at)
	require.NoError(w.t, err)
	return month
}

// at is a time of the second in which the world began.
func at(second int) clock.Millis {
	return clock.ToMillis(time.Date(2026, 11, 30, 22, 0, second, 0, time.UTC))
}

func TestComputeIsThatOfTheAttemptsOfPythonTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.start("medium", false)
	done := func(from, to int, history ...runstate.Attempt) runstate.Node {
		return runstate.Node{Status: engine.Succeeded, StartedAt: at(from), EndedAt: at(to), History: history}
	}
	w.node(run, 0, done(10, 12, runstate.Attempt{Attempt: 1, Status: engine.Failed, StartedAt: at(0), EndedAt: at(3)}, runstate.Attempt{Attempt: 2, StartedAt: at(5)}))
	november := w.Now()
	assert.Equal(t, usage.Month{Month: "2026-11", Runs: 1, Compute: 5000 * 1024}, w.of(november), "of the run while it runs")

	flow := done(0, 100)
	flow.Width = new(2)
	w.node(run, 1, flow) // the map as a whole
	w.node(run, 2, done(0, 50))
	w.node(run, 4, done(20, 21)) // on_failure
	first := w.instance(run, 0)
	w.node(run, first, done(0, 1))
	w.node(run, w.instance(run, 1), runstate.Node{Status: engine.Reused, StartedAt: at(0), EndedAt: at(9)})
	want := usage.Month{Month: "2026-11", Runs: 1, Compute: 5000*1024 + 2000*2048}
	assert.Equal(t, want, w.of(november))
	w.end(run)
	for range 3 {
		w.advance(10 * time.Minute)
		assert.Equal(t, want, w.of(november), "however often it is counted")
	}
	assert.EqualValues(t, 9, want.GBSeconds())

	given := w.start("nano", true)
	w.node(given, 0, done(0, 8))
	assert.EqualValues(t, 8000*256, w.of(november).Compute-want.Compute, "the tier that the run asks for")
	w.advance(2 * time.Hour)
	december := w.start("nano", false)
	w.node(december, 0, runstate.Node{Status: engine.Running, StartedAt: clock.ToMillis(w.Now())})
	assert.Equal(t, usage.Month{Month: "2026-12", Runs: 1}, w.of(w.Now()))
	other, err := w.meter().Of(t.Context(), "org_2", november)
	require.NoError(t, err)
	assert.Equal(t, usage.Month{Month: "2026-11"}, other, "of another workspace")
}

// instance is the node of an instance of the map.
func (w *world) instance(run runstate.Run, index int) engine.Node {
	_, plan, err := registry.LoadPlan(context.Background(), w.table, nil, org, w.hash, run.Plan)
	require.NoError(w.t, err)
	return plan.Instance(1, index)
}

// TestCountsEqualTheSumOfTheirEvents however counts, ends, failures and other counts
// interleave.
func TestCountsEqualTheSumOfTheirEvents(t *testing.T) {
	t.Parallel()
	base := newWorld(t)
	worlds := 0
	rapid.Check(t, func(rt *rapid.T) {
		worlds++
		w := &world{t: rt, now: base.now, hash: base.hash}
		w.table = failing{memory.Table(t, w), w}
		copySpec(rt, base, w)
		months := map[string]usage.Month{}
		book := func(at time.Time, runs, compute int64) {
			m := months[usage.Name(at)]
			months[usage.Name(at)] = usage.Month{Month: usage.Name(at), Runs: m.Runs + runs, Compute: m.Compute + compute}
		}
		var running []runstate.Run
		rt.Repeat(map[string]func(*rapid.T){
			"start": func(*rapid.T) {
				running = append(running, w.start("nano", true))
				book(w.Now(), 1, 0)
			},
			"attempt": func(rt *rapid.T) {
				if len(running) == 0 {
					rt.Skip()
				}
				i := rapid.IntRange(0, len(running)-1).Draw(rt, "run")
				took := rapid.Int64Range(1, 5000).Draw(rt, "ms")
				from := w.Now()
				w.advance(time.Duration(took) * time.Millisecond)
				w.node(running[i], 0, runstate.Node{Status: engine.Succeeded, StartedAt: clock.ToMillis(from), EndedAt: clock.ToMillis(w.Now())})
				book(w.Now(), 0, took*256)
				w.end(running[i])
				running = append(running[:i:i], running[i+1:]...)
			},
			"later": func(rt *rapid.T) {
				w.advance(time.Duration(rapid.IntRange(1, 40).Draw(rt, "minutes")) * time.Minute)
			},
			"fails": func(*rapid.T) {
				w.broken = table.ErrThrottled
				_, _ = w.meter().Of(context.Background(), org, w.Now())
				w.broken = nil
			},
			"answer lost": func(*rapid.T) {
				w.lost = table.ErrThrottled
				_, _ = w.meter().Of(context.Background(), org, w.Now())
				w.lost = nil
			},
			"several": func(*rapid.T) {
				var wg sync.WaitGroup
				for range 3 {
					wg.Go(func() { _, _ = w.meter().Of(context.Background(), org, w.Now()) })
				}
				wg.Wait()
			},
			"": func(rt *rapid.T) {
				for _, at := range []time.Time{base.now, w.Now()} {
					want := months[usage.Name(at)]
					want.Month = usage.Name(at)
					assert.Equal(rt, want, w.of(at))
				}
			},
		})
	})
}

// copySpec gives a world the flow of another.
func copySpec(t require.TestingT, from, to *world) {
	page, err := from.table.Query(context.Background(), table.Query{PK: org + "#spec#" + from.hash})
	require.NoError(t, err)
	for _, item := range page.Items {
		require.NoError(t, to.table.Put(context.Background(), table.Put{Item: item}))
	}
}

func TestManyRunsAreReadOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counted := &reads{Table: w.table}
	meter := usage.Meter{Table: counted, Clock: w}
	for range 250 {
		run := w.start("nano", true)
		w.node(run, 0, runstate.Node{Status: engine.Succeeded, StartedAt: at(0), EndedAt: at(1)})
		w.end(run)
	}
	w.advance(time.Hour)
	count := func() int {
		counted.queries = 0
		month, err := meter.Of(t.Context(), org, at(0).Time())
		require.NoError(t, err)
		assert.Equal(t, usage.Month{Month: "2026-11", Runs: 250, Compute: 250 * 256_000}, month)
		return counted.queries
	}
	assert.Greater(t, count(), 250)
	assert.Equal(t, 1, count(), "only what comes after the ledger is read")
}

// reads counts queries.
type reads struct {
	table.Table
	queries int
}

func (r *reads) Query(ctx context.Context, q table.Query) (table.Page, error) {
	r.queries++
	return r.Table.Query(ctx, q)
}

func TestQuotasOfAWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	limits, err := quota.ParseValues([]string{"runs-per-month=3", "gb-seconds-per-month=10"})
	require.NoError(t, err)
	q := quota.New(quota.Config{Table: w.table, Clock: w, Values: limits})
	admit := func() error { return w.meter().Admit(t.Context(), q, org) }
	run := w.start("small", true)
	for range 2 {
		require.NoError(t, admit())
		w.start("small", true)
	}
	require.ErrorIs(t, admit(), quota.ErrMonth)
	require.ErrorContains(t, admit(), "runs-per-month")
	w.node(run, 0, runstate.Node{Status: engine.Succeeded, StartedAt: at(0), EndedAt: at(10)})
	w.advance(time.Minute)
	require.ErrorContains(t, admit(), "gb-seconds-per-month")
	uses, err := w.meter().Uses(t.Context(), q, org)
	require.NoError(t, err)
	var shown []string
	for _, u := range uses {
		shown = append(shown, fmt.Sprint(u.Name, " ", u.Used, " of ", u.Limit))
	}
	assert.Equal(t, []string{"runs-per-month 3 of 3", "gb-seconds-per-month 10 of 10"}, shown)
	w.advance(2 * time.Hour)
	require.NoError(t, admit(), "the next month")
}
