package conductor

import (
	"context"
	"fmt"
	"time"

	"millrace/shared/engine"
	"millrace/shared/flowspec"
	"millrace/shared/queue"
)

// drive runs an attempt and goes on with what it makes ready, one task after
// the other, as long as there is one and time for it. The rest is enqueued.
func (s *session) drive(ctx context.Context, r ready) error {
	for own := true; ; own = false {
		finished, err := s.attempt(ctx, r, own)
		if err != nil || finished == nil {
			return err
		}
		if err := s.walk(ctx, *finished); err != nil { //guard:walk/before-delete false
			return err
		}
		next, err := s.pick(ctx)
		if err != nil || next == nil {
			return err
		}
		r = *next
	}
}

// The bounds of what hangs on one message, because all of it is walked again if
// the message is delivered again, by a crash for one.
const (
	// MaxInline is how many tasks a worker runs one after the other.
	MaxInline = 256
	// maxSiblings is how many ready nodes it keeps one of.
	maxSiblings = queue.MaxBatch
)

// pick keeps one ready node for this worker and enqueues the others.
func (s *session) pick(ctx context.Context) (*ready, error) {
	nodes := s.ready
	s.ready = nil
	if len(nodes) == 0 {
		return nil, nil
	}
	until, limited := ctx.Deadline()
	late := limited && until.Sub(s.Clock.Now()) < s.need(nodes[0].node)+WriteMargin //guard:inline/budget false
	if late || len(nodes) > maxSiblings || s.inline >= MaxInline {
		return nil, s.send(ctx, nodes, 0)
	}
	s.inline++
	if err := s.send(ctx, nodes[1:], 0); err != nil { //guard:inline/others drop
		return nil, err
	}
	return &nodes[0], nil
}

// need is how long a node may take.
func (s *session) need(n engine.Node) time.Duration {
	task, err := s.task(n)
	if err != nil {
		return 0
	}
	return time.Duration(task.TimeoutSecs) * time.Second
}

// task is the definition of the task that a node runs.
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
	return nil, fmt.Errorf("conductor: node %d of run %s runs no task", n, s.id)
}
