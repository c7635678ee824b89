package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/fixture"
	"millrace/shared/account/quota"
	"millrace/shared/platform/clock"
	"millrace/shared/run/executor"
	"millrace/shared/run/launch"
	"millrace/shared/run/sandbox/ticket"
	"millrace/shared/run/worker"
)

// cloud is a model of a Lambda function that is invoked asynchronously, with the limits
// that are documented: the concurrency that others leave to it, a thousand new
// environments at once and a hundred more each second, environments of one
// tenant each, and events that are repeated after a throttle, first after a
// second, then after twice as long each time, up to five minutes.
type cloud struct {
	w           *world
	concurrency int
	takes       time.Duration // of each task
	varies      time.Duration // by which it takes more or less

	procs []*worker.Worker // that serve messages and runners

	mu        sync.Mutex
	running   map[string]int
	most      map[string]int
	tasks     map[string]int       // tasks that run, by workspace
	mostTasks int                  // the most of them of the usual workspace
	warm      map[string]int       // environments that wait, by tenant
	new       float64              // environments that may be made
	at        time.Time            // as of
	began     map[string]time.Time // by run: when a task of it began last
	events    int                  // that are outstanding: accepted, and their tasks not over
	done      int                  // tasks that are over
	attempts  int                  // the highest number of an attempt
	over      chan struct{}        // closed when environments are to end
}

const (
	lambdaBurst = 1000
	lambdaRate  = 100 // new environments a second
	coldStart   = time.Second
	warmStart   = 20 * time.Millisecond
)

func (*cloud) Instant() bool      { return false }
func (*cloud) Dispatches() bool   { return true }
func (*cloud) Serves(string) bool { return true }

func (*cloud) Execute(context.Context, *executor.Attempt) executor.Result { panic("executed") }

func (l *cloud) Dispatch(_ context.Context, _ string, t ticket.Attempt) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events++
	l.attempts = max(l.attempts, t.Number)
	go l.deliver(t)
	return nil
}

func (l *cloud) Request(_ context.Context, a *executor.Attempt) (json.RawMessage, executor.Result) {
	return json.RawMessage(`{}`), executor.Result{}
}

func (l *cloud) Result(context.Context, *executor.Attempt, json.RawMessage) (executor.Result, time.Duration, error) {
	return ok("null"), l.takes, nil
}

// enter takes an environment. It returns how long that takes to start; ok is
// false if the invocation is throttled.
func (l *cloud) enter(tenant string) (start time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.new = min(lambdaBurst, l.new+lambdaRate*now.Sub(l.at).Seconds())
	l.at = now
	sum := 0
	for _, n := range l.running {
		sum += n
	}
	switch {
	case sum >= l.concurrency:
		return 0, false
	case l.warm[tenant] > 0:
		l.warm[tenant]--
		start = warmStart
	case l.new >= 1:
		l.new--
		start = coldStart
	default:
		return 0, false
	}
	l.running[tenant]++
	l.most[tenant] = max(l.most[tenant], l.running[tenant])
	return start, true
}

// sleep returns false if the environment is to end.
func (l *cloud) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-l.over:
		return false
	}
}

func (l *cloud) leave(tenant string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running[tenant]--
	l.warm[tenant]++
}

// deliver invokes the function with an event until it is not throttled.
func (l *cloud) deliver(t ticket.Attempt) {
	start, ok := l.enter(t.Org)
	for again := time.Second; !ok; again = min(2*again, 5*time.Minute) {
		if !l.sleep(again) {
			return
		}
		start, ok = l.enter(t.Org)
	}
	if l.sleep(start) {
		l.run(worker.Runner{Attempt: t, ID: "one"})
		l.leave(t.Org)
	}
}

func (l *cloud) run(me worker.Runner) {
	ctx := l.w.ctx
	any := func() *worker.Worker { return l.procs[rand.IntN(len(l.procs))] }
	if _, err := any().Begin(ctx, me); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.events--
		return // its run was cancelled, or it is another event of the same attempt
	}
	l.mu.Lock()
	l.began[me.Attempt.Run] = time.Now()
	l.tasks[me.Attempt.Org]++
	l.mostTasks = max(l.mostTasks, l.tasks[org])
	l.mu.Unlock()
	takes := l.takes + time.Duration((2*rand.Float64()-1)*float64(l.varies))
	for left := takes; left > 0; left -= 2 * worker.Heartbeat {
		if !l.sleep(min(left, 2*worker.Heartbeat)) {
			return
		}
		if stop, err := any().Renew(ctx, me); stop || err != nil {
			break
		}
	}
	// Its environment is there for a moment longer than its slot.
	l.mu.Lock()
	l.tasks[me.Attempt.Org]--
	l.events--
	l.done++
	l.mu.Unlock()
	_, _ = any().Continue(ctx, me, json.RawMessage(`{}`), 10*time.Minute)
}

// otherOrg is a workspace beside the usual one.
const otherOrg = "org_other"

// delays lets a workspace run a wide flow, and another one, half a minute later,
// ten runs of one task. It returns how long each of these waited to begin.
func (l *cloud) delays(n int) []time.Duration {
	w := l.w
	w.register("wide", wide(n))
	other := fixture.Owner(w.t.Context(), otherOrg)
	require.NoError(w.t, fixture.Register(other, w.table, w.blob, "one", spec("a")))
	w.run("wide")
	time.Sleep(30 * time.Second)
	accepted := map[string]time.Time{}
	for range 10 {
		run, err := w.launch.Accept(other, otherOrg, launch.Request{Flow: "one", Version: "1", Trigger: launch.Manual})
		require.NoError(w.t, err)
		accepted[run.ID] = time.Now()
		time.Sleep(time.Second)
	}
	time.Sleep(5 * time.Minute)
	close(l.over)
	var out []time.Duration
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, at := range accepted {
		began, ok := l.began[id]
		require.True(w.t, ok, "it never began")
		out = append(out, began.Sub(at))
	}
	slices.Sort(out)
	return out
}

// newCloud returns a model with processes, and limits: of running tasks of each
// workspace, and of all.
func newCloud(t *testing.T, processes int, limit, all int64) *cloud {
	w := still(t)
	l := &cloud{
		w: w, concurrency: 600, takes: 3 * time.Minute, new: lambdaBurst, at: time.Now(),
		running: map[string]int{}, tasks: map[string]int{}, most: map[string]int{}, warm: map[string]int{}, began: map[string]time.Time{}, over: make(chan struct{}),
	}
	w.load(slog.New(slog.DiscardHandler))
	w.c.Executors["python"] = l
	for i := range processes {
		c := w.hand(fmt.Sprint("process", i), w.frozen, func(cfg *worker.Config) {
			values := quota.Values{quota.RunningTasks: limit, quota.RunningOfAll: all}
			cfg.Quota = quota.New(quota.Config{Table: cfg.Table, Clock: clock.System{}, Values: values})
		}).Worker
		l.procs = append(l.procs, c)
		w.work(c)
	}
	w.ticking()
	return l
}

// TestOthersStartBesideAWideRun: ten thousand tasks of a workspace do not delay
// those of another one, because its limit leaves sandboxes free. Without a limit
// they do.
func TestOthersStartBesideAWideRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit int64
		tasks int
		late  bool
	}{{300, 10_000, false}, {-1, 1000, true}} {
		synctest.Test(t, func(t *testing.T) {
			l := newCloud(t, 1, c.limit, -1)
			waits := l.delays(c.tasks)
			last := waits[len(waits)-1] // which is the 99th percentile of ten
			t.Logf("limit %d: %v", c.limit, waits)
			if c.late {
				assert.Greater(t, last, time.Minute, "the model has no shortage")
				assert.Equal(t, l.concurrency, l.most[org])
				return
			}
			assert.Less(t, last, 5*time.Second)
			assert.Equal(t, int(c.limit), l.mostTasks)
		})
	}
}
