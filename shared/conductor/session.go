package conductor

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"millrace/events"
	"millrace/shared/blob"
	"millrace/shared/engine"
	"millrace/shared/expr"
	"millrace/shared/flowspec"
	"millrace/shared/queue"
	"millrace/shared/registry"
	"millrace/shared/runstate"
	"millrace/shared/table"
	"millrace/shared/telemetry"
)

// session is the work on one message of one run.
type session struct {
	*Conductor
	org, id string
	chain   string // names the message whose walk this is
	again   bool   // the message was delivered before: look before deciding
	busy    time.Duration
	queue   string            // that the message came from
	trace   telemetry.Trace   // that the run belongs to, once known
	subject telemetry.Subject // of what is logged; in the context
	work    *work             // the attempt under way, or the last one; nil before the first
	inline  int               // tasks gone on with

	run   *runstate.Run // as last read
	flow  *compiled
	input *runstate.Input
	base  expr.Scope // without tasks; made when it is first needed
	ready []ready
	// sources are items of the run that is retried, read ahead.
	sources map[engine.Node]*runstate.Node
	items   map[engine.Node]*runstate.Node // known while a look or a repeated walk needs them
}

// ready is a node that may be claimed.
type ready struct {
	node    engine.Node
	attempt int
}

// compiled is a flow with its plan, shared by all its runs.
type compiled struct {
	*flowspec.Flow
	plan *engine.Plan
	used []bool // by task: something reads its output
}

func node(n int) engine.Node { return engine.Node(n) }

func (c *Conductor) session(org, run string) *session {
	return &session{Conductor: c, org: org, id: run}
}

// load reads the run's record consistently, and its plan.
func (s *session) load(ctx context.Context) error {
	//guard:fence/consistent drop arg 4
	run, err := table.Load[runstate.Run](ctx, s.Table, runstate.RunKey(s.org, s.id), table.Consistent)
	if err != nil {
		return fmt.Errorf("read run %s: %w", s.id, err)
	}
	return s.take(ctx, &run)
}

// take adopts a run's record and its plan.
func (s *session) take(ctx context.Context, run *runstate.Run) error {
	s.run = run
	if s.flow != nil {
		return nil
	}
	var err error
	s.flow, err = s.compiled(ctx, run)
	return err
}

func (c *Conductor) compiled(ctx context.Context, run *runstate.Run) (*compiled, error) {
	flow, plan, err := registry.LoadPlan(ctx, c.Table, c.Blob, run.Org, run.SpecHash, run.Plan)
	if err != nil {
		return nil, fmt.Errorf("load flow %s %s: %w", run.Flow, run.Version, err)
	}
	return &compiled{Flow: flow, plan: plan, used: flow.Used()}, nil
}

// inputs reads what the run was accepted with; it never changes.
func (s *session) inputs(ctx context.Context) (*runstate.Input, error) {
	if s.input != nil {
		return s.input, nil
	}
	if in, ok := s.cache.inputs.Get(s.id); ok {
		s.traced(in.Trace)
		s.input = in
		return in, nil
	}
	in, err := runstate.LoadInput(ctx, s.Table, s.Blob, s.org, s.id)
	if err != nil {
		return nil, err
	}
	s.traced(in.Trace)
	s.cache.keepInput(s.id, in)
	s.input = in
	return in, nil
}

// node reads a node's item; nil if it has none.
func (s *session) node(ctx context.Context, n engine.Node) (*runstate.Node, error) {
	if item, ok := s.items[n]; ok {
		return item, nil
	}
	return runstate.LoadNode(ctx, s.Table, s.org, s.id, n)
}

// send enqueues nodes for any worker of the run's tier.
func (s *session) send(ctx context.Context, nodes []ready, delay time.Duration) error {
	if len(nodes) == 0 {
		return nil
	}
	msgs := make([]events.Run, len(nodes))
	for i, r := range nodes {
		msgs[i] = events.Run{Kind: events.RunTask, Node: int(r.node), Attempt: r.attempt}
	}
	return s.sendAll(ctx, events.Tasks(s.mode()), msgs, delay)
}

// mode is the run's tier; before the run is read, the message's queue is as good.
func (s *session) mode() string {
	if s.run != nil {
		return s.run.Mode
	}
	if tier, ok := events.TierOf(s.queue); ok {
		return tier
	}
	return "nano"
}

func (s *session) sendAll(ctx context.Context, to string, msgs []events.Run, delay time.Duration) error {
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

// lookLater asks for a look at the run after a while.
func (s *session) lookLater(ctx context.Context, delay time.Duration) error {
	return s.sendAll(ctx, events.Runs, []events.Run{{Kind: events.RunLook}}, delay)
}

// object reads a JSON object of the store: an output, or a list.
func (s *session) object(ctx context.Context, key string) (json.RawMessage, error) {
	data, _, err := blob.GetBytes(ctx, s.Blob, key, MaxOutput)
	if err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	return data, nil
}
