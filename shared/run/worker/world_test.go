package worker_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/localbus"
	"millrace/localstack/embedded/pebbletable"
	"millrace/localstack/embedded/runtime"
	"millrace/localstack/embedded/store"
	"millrace/localstack/proof/fixture"
	"millrace/localstack/proof/memory"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/notify"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/launch"
	"millrace/shared/run/registry"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
	"millrace/shared/run/worker"
)

const org = "org_test"

// visibility is the visibility time-out of messages: as deployed, longer than
// any task. Messages received by a dead worker are repaired by reconciliations,
// not by the time-out.
const visibility = 90 * time.Minute

// world is a whole engine inside one synctest bubble: the embedded drivers,
// workers, and executors scripted by the test.
type world struct {
	t      *testing.T
	ctx    context.Context
	db     *store.DB
	table  table.Table // as the engine sees it: wrapped by the test
	plain  table.Table // as the test reads it
	queues queue.Queues
	blob   blob.Store
	logs   *runlog.Store
	launch *launch.Launcher
	hub    *notify.Broker
	c      *worker.Worker
	rt     *runtime.Runtime
	boot   string
	wrap   func(table.Table) table.Table

	mu    sync.Mutex
	ran   []string                                                            // task names in the order they began
	tasks map[string]func(context.Context, *executor.Attempt) executor.Result // by name
}

type option func(*world)

func newWorld(t *testing.T, opts ...option) *world {
	w := &world{t: t, hub: &notify.Broker{}, blob: &blobtest.Memory{}, boot: "boot1", tasks: map[string]func(context.Context, *executor.Attempt) executor.Result{}}
	w.ctx = fixture.Owner(t.Context(), org)
	for _, o := range opts {
		o(w)
	}
	w.db = memory.Store(t)
	w.plain = pebbletable.New(w.db, clock.System{})
	w.table = w.plain
	if w.wrap != nil {
		w.table = w.wrap(w.table)
	}
	w.openQueues()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	w.logs = &runlog.Store{Table: w.table, Blob: w.blob, Clock: clock.System{}, Log: log}
	w.launch = &launch.Launcher{Table: w.table, Queues: w.queues, Blob: w.blob, Clock: clock.System{}, Log: log, Broker: w.hub}
	w.start(log)
	return w
}

// openQueues opens the queues, like a process that starts.
func (w *world) openQueues() {
	w.queues = memory.QueuesIn(w.t, w.db, clock.System{}, fixture.Queues(visibility))
}

// start starts the workers, in a process of their own.
func (w *world) start(log *slog.Logger) {
	w.load(log)
	w.serve()
}

// load creates the worker of a process, without starting it.
func (w *world) load(log *slog.Logger) {
	w.c = worker.New(worker.Config{
		Table: w.table, Queues: w.queues, Blob: w.blob, Bus: localbus.New(w.queues, nil), Clock: clock.System{},
		Log: log, Logs: w.logs, Broker: w.hub, ProcessID: w.boot, Exclusive: true, LongLived: true,
		Executors: executor.Set{
			"python": scripted{w}, "http": scripted{w},
			"transform": executor.Transform{}, "wait": executor.Wait{Now: clock.System{}.Now},
		},
	})
}

// kill stops the workers in the middle of their work.
func (w *world) kill() {
	now, cancel := context.WithTimeout(w.ctx, time.Second)
	defer cancel()
	w.rt.Stop(now)
}

// serve starts workers that pass messages to the world's worker.
func (w *world) serve() { w.rt = w.work(w.c) }

// scripted runs tasks as scripted by the test. Without a script a task succeeds
// with null.
type scripted struct{ w *world }

func (scripted) Instant() bool { return false }

func (s scripted) Execute(ctx context.Context, a *executor.Attempt) executor.Result {
	s.w.mu.Lock()
	s.w.ran = append(s.w.ran, a.Task.Name)
	do := s.w.tasks[a.Task.Name]
	s.w.mu.Unlock()
	if do == nil {
		return ok(`null`)
	}
	return do(ctx, a)
}

func ok(raw string) executor.Result {
	return executor.Result{Output: executor.Value{JSON: json.RawMessage(raw), Size: int64(len(raw))}}
}

// task scripts a task.
func (w *world) task(name string, do func(ctx context.Context, a *executor.Attempt) executor.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tasks[name] = do
}

// times returns how often a task began.
func (w *world) times(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, r := range w.ran {
		if r == name {
			n++
		}
	}
	return n
}

// register registers a flow. Tasks of type work are scripted.
func (w *world) register(name, spec string) {
	w.t.Helper()
	require.NoError(w.t, fixture.Register(w.ctx, w.table, w.blob, name, spec))
}

// run starts a run of a flow.
func (w *world) run(name string, params ...string) runstate.Run {
	w.t.Helper()
	p := map[string]json.RawMessage{}
	for i := 0; i < len(params); i += 2 {
		p[params[i]] = json.RawMessage(params[i+1])
	}
	run, err := w.launch.Accept(w.ctx, org, launch.Request{Flow: name, Version: "1", Parameters: p, Trigger: launch.Manual})
	require.NoError(w.t, err)
	return run
}

// get reads a run.
func (w *world) get(id string) runstate.Run {
	w.t.Helper()
	run, err := runstate.GetRun(w.ctx, w.plain, org, id, time.Now())
	require.NoError(w.t, err)
	return run
}

// wait waits until a run has ended and left the due index.
func (w *world) wait(id string) runstate.Run {
	w.t.Helper()
	began := time.Now()
	for time.Since(began) < 3*time.Hour {
		run := w.get(id)
		if run.Status.RunEnded() && run.Archived {
			return run
		}
		time.Sleep(max(100*time.Millisecond, time.Since(began)/2000)) // of the bubble's time
	}
	require.Fail(w.t, "the run did not end", "%+v", w.get(id))
	return runstate.Run{}
}

// plan returns a run's flow and plan.
func (w *world) plan(run *runstate.Run) (*flowspec.Flow, *engine.Plan) {
	w.t.Helper()
	flow, err := registry.LoadFlow(w.ctx, w.plain, w.blob, org, run.SpecHash)
	require.NoError(w.t, err)
	return flow, engine.NewPlan(engine.Defs(flow))
}

// nodes reads the items of a run's nodes by task name, instances as name[i].
func (w *world) nodes(id string) map[string]*runstate.Node {
	w.t.Helper()
	run := w.get(id)
	flow, plan := w.plan(&run)
	items, err := runstate.LoadNodes(w.ctx, w.plain, &run, plan, false)
	require.NoError(w.t, err)
	out := map[string]*runstate.Node{}
	for n, item := range items {
		ref, err := plan.Ref(n)
		require.NoError(w.t, err)
		switch ref.Kind {
		case engine.KindTask:
			out[flow.Tasks[ref.Task].Name] = item
		case engine.KindInstance:
			out[flow.Tasks[ref.Task].Name+"["+itoa(ref.Index)+"]"] = item
		case engine.KindOnFailure:
			out[flow.OnFailure.Name] = item
		}
	}
	return out
}

// status returns the status of a task's item, PENDING if it has none.
func (w *world) status(id, name string) engine.Status {
	w.t.Helper()
	if item := w.nodes(id)[name]; item != nil && item.Status != "" {
		return item.Status
	}
	return engine.Pending
}
