package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"millrace/events"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/platform/telemetry"
	"millrace/shared/run/engine"
	"millrace/shared/run/expr"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/registry"
	"millrace/shared/run/runstate"
)

// session is the work on one message of one run: what was read of the run, and
// how to read, send and log. The parts of the worker share it.
type session struct {
	journal
	chain   string            // identifies the message in the nodes that it decides
	again   bool              // the message was delivered before, so read before deciding
	queue   string            // from which the message was received
	trace   telemetry.Trace   // of the run, once known
	subject telemetry.Subject // for the log; in the context
	attempt *attempt          // the current attempt, or the last one; nil before the first

	run   *runstate.Run // as last read
	flow  *compiled
	input *runstate.Input
	base  expr.Scope                     // without tasks; created on first use
	maps  map[engine.Node]*runstate.Node // of maps whose list is evaluated; they never change

	scoped func() // releases the memory of outputs that expressions read; may be nil
}

// ready is a node that may be claimed.
type ready struct {
	node    engine.Node
	attempt int
	due     clock.Millis // the end of its wait, 0 if it does not wait
}

// compiled is a flow with its plan, shared by all its runs.
type compiled struct {
	*flowspec.Flow
	plan *engine.Plan
	used func() []bool // by task: whether its output is read
}

func (c *Worker) session(org, run string) *session {
	return &session{journal: journal{c, org, run}}
}

// errNoRun means that the run of a message does not exist.
var errNoRun = errors.New("worker: there is no such run")

// load reads the run's record consistently, and its plan.
func (s *session) load(ctx context.Context) error {
	//guard:fence/consistent drop arg 4
	run, err := table.Load[runstate.Run](ctx, s.Table, runstate.RunKey(s.org, s.id), table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return fmt.Errorf("run %s: %w", s.id, errNoRun)
	}
	if err != nil {
		return fmt.Errorf("read run %s: %w", s.id, err)
	}
	s.run = &run
	return s.plan(ctx)
}

// plan reads the flow of the run and its plan, once.
func (s *session) plan(ctx context.Context) (err error) {
	if s.flow == nil {
		s.flow, err = s.compiled(ctx, s.run)
	}
	return err
}

func (c *Worker) compiled(ctx context.Context, run *runstate.Run) (*compiled, error) {
	flow, plan, err := registry.LoadPlan(ctx, c.Table, c.Blob, run.Org, run.SpecHash, run.Plan)
	if err != nil {
		return nil, fmt.Errorf("load flow %s %s: %w", run.Flow, run.Version, err)
	}
	return &compiled{Flow: flow, plan: plan, used: sync.OnceValue(flow.Used)}, nil
}

// inputs reads the input of the run, which never changes.
func (s *session) inputs(ctx context.Context) (*runstate.Input, error) {
	if s.input != nil {
		return s.input, nil
	}
	in, ok := s.cache.inputs.Get(s.id)
	if !ok {
		var err error
		in, err = runstate.LoadInput(ctx, s.Table, s.Blob, s.org, s.id)
		if errors.Is(err, blob.ErrNotFound) {
			return nil, missing("input.json")
		}
		if err != nil {
			return nil, err
		}
		s.cache.keepInput(s.id, in)
	}
	s.traced(in.Trace)
	s.input = in
	return in, nil
}

// reused returns what the run reuses of the one that it retries; nil if nothing.
// The input of any other run is not read for it.
func (s *session) reused(ctx context.Context) (*runstate.Reuse, error) {
	if s.run.Parent == "" {
		return nil, nil
	}
	in, err := s.inputs(ctx)
	if err != nil {
		return nil, err
	}
	return in.Reuse, nil
}

// node reads a node's item; nil if it has none.
func (s *session) node(ctx context.Context, n engine.Node) (*runstate.Node, error) {
	return runstate.LoadNode(ctx, s.Table, s.org, s.id, n)
}

// task returns the definition of the task that a node runs.
func (s *session) task(n engine.Node) (*flowspec.Task, error) {
	ref, err := s.flow.plan.Ref(n)
	if err != nil {
		return nil, err
	}
	switch {
	case ref.Kind == engine.KindOnFailure && s.flow.OnFailure != nil:
		return s.flow.OnFailure, nil
	case ref.Kind == engine.KindTask || ref.Kind == engine.KindInstance:
		return &s.flow.Tasks[ref.Task], nil
	}
	return nil, fmt.Errorf("worker: node %d of run %s runs no task", n, s.id)
}

// subjectOf returns a node's attempt from its item, for the log; without a name
// if the flow is not loaded.
func (s *session) subjectOf(n engine.Node, item *runstate.Node) *attempt {
	w := &attempt{node: n, item: item, unlogged: unlogged(item)}
	if s.flow != nil {
		w.task, _ = s.task(n)
		w.ref, _ = s.flow.plan.Ref(n)
	}
	return w
}

// mapItem returns the item of a mapped task whose list was evaluated.
func (s *session) mapItem(ctx context.Context, task int) (*runstate.Node, error) {
	n := engine.Node(task)
	if item := s.maps[n]; item != nil {
		return item, nil
	}
	item, err := s.node(ctx, n)
	if err != nil {
		return nil, err
	}
	if item == nil || item.Width == nil {
		return nil, fmt.Errorf("worker: run %s has instances of task %d but no list", s.id, task)
	}
	s.remember(n, item)
	return item, nil
}

// remember caches the item of a map whose list was evaluated.
func (s *session) remember(n engine.Node, item *runstate.Node) {
	if s.maps == nil {
		s.maps = map[engine.Node]*runstate.Node{}
	}
	s.maps[n] = item
}

// send enqueues nodes for any worker of the run's tier.
func (s *session) send(ctx context.Context, nodes []ready, delay time.Duration) error {
	if len(nodes) == 0 {
		return nil
	}
	msgs := make([]events.Run, len(nodes))
	for i, r := range nodes {
		msgs[i] = events.Run{Kind: events.RunTask, Node: int(r.node), Attempt: r.attempt, Due: int64(r.due)}
		if s.flow == nil {
			continue
		}
		if task, err := s.task(r.node); err == nil {
			msgs[i].Type = task.Type
		}
	}
	return s.sendAll(ctx, events.Tasks(s.mode()), msgs, delay)
}

// mode returns the run's tier. Before the run is read it is taken from the
// message's queue.
func (s *session) mode() string {
	if s.run != nil {
		return s.run.Mode
	}
	if tier, ok := events.TierOf(s.queue); ok {
		return tier
	}
	return "nano"
}

// sendAll sends messages about the run. What this process has logged about the
// run is stored first, because the receiver of a message may end the run and
// archive its log.
func (s *session) sendAll(ctx context.Context, to string, msgs []events.Run, delay time.Duration) error {
	if err := s.flush(ctx); err != nil {
		return err
	}
	out := make([]queue.Message, len(msgs))
	delay, trace := min(max(delay, 0), queue.MaxDelay), s.trace.String()
	for i, m := range msgs {
		m.Org, m.Run, m.Trace, m.Delay = s.org, s.id, trace, delay.Milliseconds()
		body, err := json.Marshal(m)
		if err != nil {
			return err
		}
		out[i] = queue.Message{Body: body, Group: s.org, Delay: delay} //guard:tenant/messages field Group "org"
	}
	if err := s.Queues.Send(ctx, to, out...); err != nil {
		return fmt.Errorf("send to %s: %w", to, err)
	}
	return nil
}

// flush stores what this process has logged about the run, unless the process
// is long-lived and does so by itself.
func (s *session) flush(ctx context.Context) error {
	if s.LongLived {
		return nil
	}
	return s.Logs.Flush(ctx, s.org, s.id) //guard:log/before-send return nil
}

// reconcileLater requests a reconciliation of the run after a delay.
func (s *session) reconcileLater(ctx context.Context, delay time.Duration) error {
	return s.sendAll(ctx, events.Runs, []events.Run{{Kind: events.RunReconcile}}, delay)
}

// object reads a JSON object from the store: an output or a list.
func (s *session) object(ctx context.Context, key string) (json.RawMessage, error) {
	data, _, err := blob.GetBytes(ctx, s.Blob, key, MaxOutput)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, missing(key)
	}
	if err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	return data, nil
}
