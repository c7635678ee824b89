package worker_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/fixture"
	"millrace/shared/run/engine"
	"millrace/shared/run/launch"
	"millrace/shared/run/runstate"
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
