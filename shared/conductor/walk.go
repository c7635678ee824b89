package conductor

import (
	"context"
	"errors"
	"fmt"

	"millrace/events"
	"millrace/shared/engine"
	"millrace/shared/runlog"
	"millrace/shared/runstate"
	"millrace/shared/table"
)

// start begins a run: QUEUED turns to RUNNING before any task is claimed.
func (s *session) start(ctx context.Context) error {
	s.chain = "start"
	now := s.Clock.Now()
	if err := s.load(ctx); err != nil {
		return err
	}
	switch s.run.Status {
	case engine.Queued:
		do := []table.Action{
			table.Set(runstate.RunStatus, string(engine.Running)),
			table.Set(runstate.RunStarted, int64(millis(now))),
		}
		if s.run.Timeout > 0 {
			do = append(do, table.Set(runstate.RunDeadline, int64(millis(now))+1000*int64(s.run.Timeout)))
		}
		item, err := s.Table.Update(ctx, table.Update{
			Key: runstate.RunKey(s.org, s.id), Do: do,
			If: table.Eq(runstate.RunStatus, string(engine.Queued)),
		})
		if errors.Is(err, table.ErrConditionFailed) {
			s.again = true
			return s.restart(ctx) // another delivery was first, or a cancel
		}
		if err != nil {
			return fmt.Errorf("start run: %w", err)
		}
		if err := table.Unmarshal(item, s.run); err != nil {
			return err
		}
		s.log(runlog.TypeRunStarted, "info", "Run %s of %s %s started", s.run.Slug, s.run.Flow, s.run.Version)
		if err := s.watchDeadline(ctx, now); err != nil {
			return err
		}
		return s.begin(ctx)
	default:
		s.again = true
		return s.restart(ctx)
	}
}

// restart is a start that was delivered again.
func (s *session) restart(ctx context.Context) error {
	if err := s.load(ctx); err != nil {
		return err
	}
	if s.run.Status.RunEnded() {
		return s.finalize(ctx)
	}
	if s.run.Fenced(s.Clock.Now()) != "" {
		return s.settle(ctx)
	}
	return s.begin(ctx)
}

// begin walks from the start and runs what is ready.
func (s *session) begin(ctx context.Context) error {
	if err := s.walk(ctx, done{node: events.Start}); err != nil {
		return err
	}
	return s.goOn(ctx)
}

// goOn runs one of the ready nodes and enqueues the others.
func (s *session) goOn(ctx context.Context) error {
	next, err := s.pick(ctx)
	if err != nil || next == nil {
		return err
	}
	return s.drive(ctx, *next)
}

// targets are the nodes that a finished one leads to.
func (s *session) targets(d done) []engine.Target {
	if d.node != events.Start {
		return s.flow.plan.Targets(d.node, d.width)
	}
	roots := s.flow.plan.Roots()
	out := make([]engine.Target, len(roots))
	for i, r := range roots {
		out[i] = engine.Target{Node: r}
	}
	return out
}

// walk goes on from finished nodes: it tells each node they lead to, and of
// those that are complete it finishes joins, skips, and collects in s.ready
// what is to run. It may be repeated at any time.
func (s *session) walk(ctx context.Context, from ...done) error {
	for len(from) > 0 {
		d := from[len(from)-1]
		from = from[:len(from)-1]
		if d.failure != "" {
			if err := s.noteFailure(ctx, d.failure); err != nil {
				return err
			}
		}
		if d.node == s.flow.plan.OnFailure() {
			return s.endOnFailure(ctx)
		}
		targets := s.targets(d)
		if len(targets) > engine.FanWidth {
			var parts []events.Run
			for p := 1; p*engine.FanWidth < len(targets); p++ {
				parts = append(parts, events.Run{Kind: events.RunWalk, Node: int(d.node), Part: p})
			}
			if err := s.sendAll(ctx, events.Tasks(s.run.Mode), parts, 0); err != nil {
				return err
			}
			targets = targets[:engine.FanWidth]
		}
		more, err := s.tellAll(ctx, d, targets)
		if err != nil {
			return err
		}
		from = append(from, more...)
	}
	return nil
}

// part does one part of a wide walk, or of a map's instances.
func (s *session) part(ctx context.Context, m events.Run) error {
	if err := s.load(ctx); err != nil {
		return err
	}
	if s.run.Fenced(s.Clock.Now()) != "" {
		return s.settle(ctx)
	}
	n := engine.Node(m.Node)
	d := &done{node: n}
	if m.Node != events.Start {
		item, err := s.node(ctx, n)
		if err != nil {
			return err
		}
		if item == nil {
			return fmt.Errorf("conductor: node %d of run %s has no item to go on from", n, s.id)
		}
		if m.Kind == events.RunExpand {
			if err := s.expandPart(ctx, n, *item.Width, m.Part); err != nil {
				return err
			}
			return s.goOn(ctx)
		}
		if d, err = s.finished(ctx, n, item); err != nil {
			return err
		}
	}
	targets := s.targets(*d)
	first := min(m.Part*engine.FanWidth, len(targets))
	more, err := s.tellAll(ctx, *d, targets[first:min(first+engine.FanWidth, len(targets))])
	if err != nil {
		return err
	}
	if err := s.walk(ctx, more...); err != nil {
		return err
	}
	return s.goOn(ctx)
}

func (s *session) tellAll(ctx context.Context, d done, targets []engine.Target) ([]done, error) {
	known, err := s.decided(ctx, targets)
	if err != nil {
		return nil, err
	}
	var more []done
	for _, t := range targets {
		next, err := s.tell(ctx, d, t, known)
		if err != nil {
			return nil, err
		}
		if next != nil {
			more = append(more, *next)
		}
	}
	return more, nil
}

// decided reads, for a walk that may have been made before, the items of those
// targets whose item the walk itself does not write.
func (s *session) decided(ctx context.Context, targets []engine.Target) (map[engine.Node]*runstate.Node, error) {
	if !s.again {
		return nil, nil
	}
	var nodes []engine.Node
	for _, t := range targets {
		if ref, err := s.flow.plan.Ref(t.Node); err == nil && t.Need <= 1 && ref.Kind == engine.KindTask {
			nodes = append(nodes, t.Node)
		}
	}
	if len(nodes) == 0 {
		return nil, nil
	}
	return runstate.LoadAll(ctx, s.Table, s.org, s.id, nodes)
}

// tell notes on a node that one of its dependencies has finished. If that was
// the last, the node is decided; if it is finished by that, it is returned.
// known are the items that the node may have.
func (s *session) tell(ctx context.Context, d done, t engine.Target, known map[engine.Node]*runstate.Node) (*done, error) {
	ref, err := s.flow.plan.Ref(t.Node)
	if err != nil {
		return nil, err
	}
	sets := engine.One(d.outcome)
	var item *runstate.Node
	switch {
	case t.Need == 0: // a task without dependencies
		sets = engine.Sets{}
		fallthrough
	case t.Need == 1:
		item = known[t.Node]
	default:
		if !s.Resident { // others may end the run on what this process has only in memory
			if err := s.Logs.Flush(ctx, s.org, s.id); err != nil {
				return nil, err
			}
		}
		if item, err = s.note(ctx, d, t); err != nil {
			return nil, err
		}
		if sets = item.Sets(); sets.Count() < t.Need {
			return nil, nil
		}
	}
	switch ref.Kind {
	case engine.KindJoin:
		return &done{node: t.Node, outcome: sets.Worst(), width: d.width}, nil
	case engine.KindEnd:
		return nil, s.end(ctx, sets.Worst())
	}
	if from, err := s.refOf(d.node); err == nil && from.Kind == engine.KindJoin && from.Task == ref.Task {
		return s.collect(ctx, t.Node, d)
	}
	if item != nil && item.Status != "" {
		return s.known(ctx, t.Node, item)
	}
	return s.decide(ctx, t.Node, ref, sets)
}

func (s *session) refOf(n engine.Node) (engine.Ref, error) {
	if n == events.Start {
		return engine.Ref{}, errors.New("the start")
	}
	return s.flow.plan.Ref(n)
}

// note adds a dependency's number to a node's sets.
func (s *session) note(ctx context.Context, d done, t engine.Target) (*runstate.Node, error) {
	stored, err := s.Table.Update(ctx, table.Update{
		Key: runstate.NodeKey(s.org, s.id, t.Node),
		Do:  []table.Action{table.AddToSet(runstate.SetOf(d.outcome), int(d.node))},
	})
	if err != nil {
		return nil, fmt.Errorf("note node %d on %d: %w", d.node, t.Node, err)
	}
	item := &runstate.Node{}
	return item, table.Unmarshal(stored, item)
}

// known goes on with a node that was decided before. Only the walk of the
// message it belongs to sees to it; every other has a message of its own.
func (s *session) known(ctx context.Context, n engine.Node, item *runstate.Node) (*done, error) {
	if item.Chain != s.chain {
		return nil, nil
	}
	if item.Status.Terminal() {
		return s.finished(ctx, n, item)
	}
	s.ready = append(s.ready, ready{n, max(item.Attempt, 1)})
	return nil, nil
}

// decide settles what becomes of a task whose dependencies are all finished.
func (s *session) decide(ctx context.Context, n engine.Node, ref engine.Ref, sets engine.Sets) (*done, error) {
	in, err := s.inputs(ctx)
	if err != nil {
		return nil, err
	}
	if in.Reuse != nil && in.Reuse.Has(ref.Task) {
		return s.reuse(ctx, n, ref, in.Reuse.Run)
	}
	status, carried := engine.Running, engine.OutcomeOK
	if rule := s.flow.plan.Def(ref.Task).Rule; sets.Count() > 0 || rule == engine.OneFailed {
		status, carried = rule.Decide(sets)
	}
	if status == engine.Running {
		s.ready = append(s.ready, ready{n, 1})
		return nil, nil
	}
	item := &runstate.Node{Status: status, EndedAt: millis(s.Clock.Now()), Chain: s.chain}
	kind, text := runlog.TypeTaskSkipped, "Task %s skipped: its trigger rule %s does not hold"
	if status == engine.UpstreamFailed {
		outcome := int(carried)
		item.Carried = &outcome
		item.ErrorType, item.Error = "UpstreamFailedError", "A task it depends on did not succeed."
		kind, text = runlog.TypeTaskFailed, "Task %s not run: a task it depends on did not succeed (trigger rule %s)"
	}
	return s.settleNode(ctx, n, item, kind, text)
}

// settleNode writes the end of a node that never ran.
func (s *session) settleNode(ctx context.Context, n engine.Node, item *runstate.Node, kind, text string) (*done, error) {
	do := []table.Action{
		table.Set(runstate.NodeStatus, string(item.Status)),
		table.Set(runstate.NodeEnded, int64(item.EndedAt)),
		table.Set(runstate.NodeChain, item.Chain),
	}
	set := func(attr string, v any, there bool) {
		if there {
			do = append(do, table.Set(attr, v))
		}
	}
	set(runstate.NodeAttempt, item.Attempt, item.Attempt > 0)
	set(runstate.NodeStarted, int64(item.StartedAt), item.StartedAt != 0)
	set(runstate.NodeErrorType, item.ErrorType, item.ErrorType != "")
	set(runstate.NodeError, item.Error, item.Error != "")
	set(runstate.NodeOutput, item.Output, item.Output != "")
	set(runstate.NodeOutputRef, item.OutputRef, item.OutputRef != "")
	set(runstate.NodeOutSize, item.OutputSize, item.OutputSize != 0)
	set(runstate.NodeListHash, item.ListHash, item.ListHash != "")
	if item.Width != nil {
		do = append(do, table.Set(runstate.NodeWidth, *item.Width))
	}
	if item.Carried != nil {
		do = append(do, table.Set(runstate.NodeCarried, *item.Carried))
	}
	_, err := s.Table.Update(ctx, table.Update{
		Key: runstate.NodeKey(s.org, s.id, n), Do: do, If: table.Absent(runstate.NodeStatus),
	})
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		old := &runstate.Node{}
		if err := table.Unmarshal(failed.Old, old); err != nil {
			return nil, err
		}
		return s.known(ctx, n, old)
	}
	if err != nil {
		return nil, fmt.Errorf("settle node %d: %w", n, err)
	}
	if task, err := s.task(n); err == nil {
		level := "info"
		if item.Status == engine.UpstreamFailed {
			level = "warning"
		}
		s.event(&work{node: n, item: item, task: task}, kind, level, text, task.Name, task.TriggerRule)
	}
	return s.finished(ctx, n, item)
}

// reuse hands on what the source run's task made, without running it.
func (s *session) reuse(ctx context.Context, n engine.Node, ref engine.Ref, source string) (*done, error) {
	src, err := runstate.LoadNode(ctx, s.Table, s.org, source, n)
	if err != nil {
		return nil, err
	}
	if src == nil {
		return nil, fmt.Errorf("conductor: run %s reuses node %d of run %s, which has none", s.id, n, source)
	}
	item := &runstate.Node{
		Status: engine.Reused, EndedAt: millis(s.Clock.Now()), Chain: s.chain, Attempt: 1,
		Output: src.Output, OutputRef: src.OutputRef, OutputSize: src.OutputSize, ListHash: src.ListHash, Width: src.Width,
	}
	if src.Status == engine.Skipped {
		item.Status, item.Error = engine.Skipped, src.Error
		return s.settleNode(ctx, n, item, runlog.TypeTaskSkipped, "Task %s skipped, as in the run that is retried (trigger rule %s)")
	}
	if ref.Kind == engine.KindTask && s.flow.plan.Def(ref.Task).Mapped && s.flow.used[ref.Task] && item.Output == "" && item.OutputRef == "" {
		return nil, fmt.Errorf("conductor: the list of task %d in run %s is not kept", ref.Task, source)
	}
	return s.settleNode(ctx, n, item, runlog.TypeTaskReused, "Task %s reused from the run that is retried (trigger rule %s)")
}
