package worker_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/faults"
	"millrace/localstack/proof/fixture"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/launch"
	"millrace/shared/run/runstate"
	"millrace/shared/run/slots"
)

// accepts starts a run of a workspace.
func (l *cloud) accepts(org, flow string) string {
	ctx := fixture.Owner(l.w.t.Context(), org)
	run, err := l.w.launch.Accept(ctx, org, launch.Request{Flow: flow, Version: "1", Trigger: launch.Manual})
	require.NoError(l.w.t, err)
	return run.ID
}

// has registers a flow of n tasks for a workspace.
func (l *cloud) has(org, flow string, n int) {
	require.NoError(l.w.t, fixture.Register(fixture.Owner(l.w.t.Context(), org), l.w.table, l.w.blob, flow, wide(n)))
}

// sample returns how many events are outstanding, and how many tasks are over.
func (l *cloud) sample() (events, done int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events, l.done
}

// delay returns how long the last of some runs of one task waited to begin.
func (l *cloud) delay(accepted map[string]time.Time) (worst time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, at := range accepted {
		begun, ok := l.began[id]
		if !ok {
			begun = time.Now()
		}
		worst = max(worst, begun.Sub(at))
	}
	return worst
}

// TestWorkspacesShareTheSandboxes: five workspaces that begin at the same moment
// want two and a half times as much as there is. When the first tasks have ended
// they hold what there is and no more. A sixth begins its ten tasks at once.
// Without a limit of all, events wait in Lambda's own queue, and those of the
// sixth with them.
func TestWorkspacesShareTheSandboxes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		all   int64
		takes time.Duration
		tasks int // of each workspace
	}{{600, 5 * time.Second, 3000}, {-1, 5 * time.Second, 3000}, {600, time.Minute, 1000}} {
		synctest.Test(t, func(t *testing.T) {
			l := newCloud(t, 6, 300, c.all)
			l.takes, l.varies = c.takes, c.takes/5
			runs := map[string]string{} // workspaces by run
			for i := range 5 {
				org := fmt.Sprint("org_", i)
				l.has(org, "wide", c.tasks)
				runs[l.accepts(org, "wide")] = org
			}
			l.has(otherOrg, "one", 1)
			var first, later []int // outstanding events each second, until the sixth begins and from then on
			settled, window := int((20*time.Second+4*c.takes)/time.Second), int((time.Minute+c.takes)/time.Second)
			for range settled {
				time.Sleep(time.Second)
				n, _ := l.sample()
				first = append(first, n)
			}
			accepted := map[string]time.Time{}
			for range 10 {
				id := l.accepts(otherOrg, "one")
				accepted[id], runs[id] = time.Now(), otherOrg
			}
			_, before := l.sample()
			for range window {
				time.Sleep(time.Second)
				n, _ := l.sample()
				later = append(later, n)
			}
			_, after := l.sample()
			rate, most := float64(after-before)/float64(window), float64(l.concurrency)/c.takes.Seconds()
			worst := l.delay(accepted)
			t.Logf("tasks of %s, limit of all %d: at most %d events outstanding, then %d; %.1f tasks a second, %.0f%% of what fits; the tenth of the sixth began after %s",
				c.takes, c.all, slices.Max(first), slices.Max(later), rate, 100*rate/most, worst)
			for id, org := range runs {
				for wait := 0; ; wait++ {
					run, err := runstate.GetRun(l.w.ctx, l.w.plain, org, id, time.Now())
					require.NoError(t, err)
					if run.Status.RunEnded() {
						assert.Equal(t, engine.Succeeded, run.Status)
						break
					}
					require.Less(t, wait, 3600)
					time.Sleep(time.Second)
				}
			}
			close(l.over)
			assert.Equal(t, 1, l.attempts)
			if c.all < 0 {
				assert.Greater(t, slices.Min(later), l.concurrency*5/4, "the model has no shortage")
				return
			}
			assert.LessOrEqual(t, slices.Max(first), l.concurrency*3/2, "before their use is known")
			assert.LessOrEqual(t, slices.Max(later), l.concurrency)
			assert.Greater(t, rate, .9*most, "what there is is used")
			assert.Less(t, worst, 5*time.Second)
		})
	}
}

// TestOneWorkspaceHasItsWholeLimit of what all may hold, at once, when others need
// little.
func TestOneWorkspaceHasItsWholeLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newCloud(t, 6, 300, 600)
		l.has(org, "wide", 2000)
		l.has(otherOrg, "few", 20)
		l.accepts(org, "wide")
		l.accepts(otherOrg, "few")
		time.Sleep(5 * time.Second)
		n, _ := l.sample()
		assert.Equal(t, 320, n)
		time.Sleep(10 * time.Minute)
		n, _ = l.sample()
		assert.Equal(t, 300, n)
		close(l.over)
	})
}

// sharing is a world whose workspace has a limit of eight, of twelve of all.
func sharing(t *testing.T, takes time.Duration) (*world, *remotes) {
	w, r := remote(t, 1, remoteOdds{})
	r.limit, r.all, r.takes = 8, 12, []time.Duration{takes}
	r.serves("one", faults.Rates{}, 1)
	return w, r
}

// holds takes slots for a workspace.
func (r *remotes) holds(s *slots.Slots, org string, n int) (taken []slots.Slot) {
	for i := range n {
		slot, err := s.Take(r.w.ctx, org, "01ANOTHER", engine.Node(i))
		require.NoError(r.w.t, err)
		if !slot.None() {
			taken = append(taken, slot)
		}
	}
	return taken
}

func (r *remotes) frees(s *slots.Slots, org string, taken []slots.Slot) {
	for _, slot := range taken {
		assert.NoError(r.w.t, s.Release(r.w.ctx, org, slot))
	}
}

// TestShareGrowsByHeartbeats: the share is the reason why attempts wait, and they begin when the share grows: by
// heartbeats of those that run, long before a reconciliation.
func TestShareGrowsByHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := sharing(t, 6*time.Minute)
		other := r.slots()
		others := r.holds(other, otherOrg, 8)
		require.Len(t, others, 8)
		time.Sleep(3 * time.Second)
		other.Tend(w.ctx, otherOrg)
		require.Len(t, r.holds(r.slots(), org, 4), 4)
		w.register("f", wide(20))
		id := w.run("f").ID
		time.Sleep(5 * time.Second)
		for name, item := range w.nodes(id) {
			assert.Equal(t, engine.Queued, item.Status, name)
			assert.Equal(t, "Its workspace may run 4 Python tasks at this time, its share of the 12 of all workspaces (running-tasks-of-all). It begins when one of them ends, or when its share grows.", item.Reason)
		}
		w.ticking()
		until := time.Now().Add(3 * time.Minute) // what no run holds is freed, and filled
		for until = until.Truncate(time.Minute).Add(5 * time.Second); time.Now().Before(until); time.Sleep(5 * time.Second) {
			other.Tend(w.ctx, otherOrg)
		}
		assert.Len(t, r.held(), 4)
		r.frees(other, otherOrg, others)
		time.Sleep(25 * time.Second)
		assert.Len(t, r.held(), 8)
		assert.Equal(t, engine.Succeeded, w.ends(id, time.Hour).Status)
		assert.Equal(t, 8, r.mostAtOnce())
		r.idle()
	})
}

// TestShareEndsHandOns: a runner whose slot is above its workspace's share makes no
// further task.
func TestShareEndsHandOns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := sharing(t, 20*time.Second)
		r.left = 15 * time.Minute
		var tasks []string
		for i := range 8 {
			tasks = append(tasks, fmt.Sprint("a", i), fmt.Sprintf("b%d: a%d", i, i))
		}
		w.register("f", spec(tasks...))
		id := w.run("f").ID
		time.Sleep(5 * time.Second)
		require.Len(t, r.held(), 8)
		other, others := r.slots(), []slots.Slot(nil)
		for range 20 { // it wants eight
			others = append(others, r.holds(other, otherOrg, 8-len(others))...)
			time.Sleep(time.Second)
		}
		assert.Contains(t, []int{4, 5, 6}, len(others), "what is left")
		assert.Equal(t, 6, r.told["hand on"])
		assert.Equal(t, engine.Succeeded, w.ends(id, 5*time.Minute).Status)
		for name, item := range w.nodes(id) {
			assert.Equal(t, 1, item.Attempt, name)
		}
		r.idle()
	})
}

// TestSlotBelowTheShareInstead of one above it is taken for a node that waits.
func TestSlotBelowTheShareInstead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := sharing(t, 30*time.Second)
		plain := slots.New(slots.Config{Table: w.plain, Clock: clock.System{}, Limit: func(string) (int64, bool) { return 8, true }})
		taken := r.holds(plain, org, 6)
		w.register("f", wide(3))
		id := w.run("f").ID
		time.Sleep(5 * time.Second)
		require.EqualValues(t, 1, r.line())
		now := time.Now()
		require.NoError(t, w.plain.Put(w.ctx, table.Put{Item: table.Item{
			"pk": table.V("slots"), "sk": table.V(org), "at": table.V(now.UnixMilli()), "due": table.V(now.Add(time.Hour).UnixMilli()),
			"held": table.V(6), "wants": table.V(8), "may": table.V(6), "below": table.V(6),
		}}))
		r.frees(plain, org, taken)
		time.Sleep(20 * time.Second)
		require.EqualValues(t, 1, r.line())
		time.Sleep(10 * time.Second)
		assert.Zero(t, r.line())
		assert.Equal(t, engine.Succeeded, w.ends(id, time.Minute).Status)
	})
}

// TestLineEndsWithTheLimit: nodes wait for a slot of a workspace whose limit is
// removed.
func TestLineEndsWithTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := slotted(t, 1)
		r.takes = []time.Duration{10 * time.Minute}
		w.register("f", wide(5))
		id := w.run("f").ID
		time.Sleep(5 * time.Second)
		require.EqualValues(t, 4, r.line())
		r.mu.Lock()
		r.live, r.limit = nil, 0
		r.mu.Unlock()
		r.serves("unlimited", faults.Rates{}, 1)
		w.rt.Stop(w.ctx)
		w.ticking()
		time.Sleep(3 * time.Minute)
		assert.Equal(t, 5, r.mostAtOnce())
		assert.Zero(t, r.line())
		assert.Equal(t, engine.Succeeded, w.ends(id, time.Hour).Status)
		for name, item := range w.nodes(id) {
			assert.Equal(t, 1, item.Attempt, name)
		}
	})
}
