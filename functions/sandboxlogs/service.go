package sandboxlogs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/keyring"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
	"millrace/shared/run/sandbox"
	"millrace/shared/run/sandbox/ticket"
	"millrace/shared/run/worker"
)

// service implements the rules.
type service struct {
	table  table.Table
	blob   blob.Store
	clock  clock.Clock
	logs   *runlog.Store
	limits *limits
	keys   *keyring.Ring // sign the tokens of attempts
	tasks  func() *worker.Worker
}

// known checks a token. Errors: errs.Unauthenticated.
func (s *service) known(ctx context.Context, token string) error {
	_, err := s.attempt(ctx, "Bearer "+token)
	return err
}

// attempt returns the attempt of a token. Errors: errs.Unauthenticated.
func (s *service) attempt(ctx context.Context, authorization string) (ticket.Attempt, error) {
	token, bearer := strings.CutPrefix(authorization, "Bearer ")
	attempt, err := ticket.Check(ctx, s.keys, token, s.clock.Now())
	if err != nil || !bearer {
		return ticket.Attempt{}, errs.Wrap(errs.Unauthenticated, err, "not a token of an attempt")
	}
	return attempt, nil
}

// start lets a runner begin its attempt. Errors: errs.Unauthenticated,
// errs.Conflict if it must not begin.
func (s *service) start(ctx context.Context, in *startIn) (Started, error) {
	attempt, err := s.attempt(ctx, in.Authorization)
	if err != nil {
		return Started{}, err
	}
	request, err := s.tasks().Begin(ctx, worker.Runner{Attempt: attempt, ID: in.Body.Runner})
	return Started{Request: request}, err
}

// complete takes the result of an attempt, and may give the runner another one.
// Errors: errs.Unauthenticated, errs.TooMany, errs.Conflict if the attempt is
// another's.
func (s *service) complete(ctx context.Context, in *completeIn) (Completed, error) {
	var none Completed
	attempt, err := s.attempt(ctx, in.Authorization)
	if err != nil {
		return none, err
	}
	if len(in.Body.Events) > 0 {
		events, err := s.events(attempt, Batch{Events: in.Body.Events})
		if err != nil {
			return none, err
		}
		if _, err := s.take(ctx, worker.Runner{Attempt: attempt, ID: in.Body.Runner}, events); err != nil {
			return none, err
		}
	}
	left := time.Duration(in.Body.RemainingSecs * float64(time.Second))
	next, err := s.tasks().Continue(ctx, worker.Runner{Attempt: attempt, ID: in.Body.Runner}, in.Body.Answer, left)
	if err != nil || next == nil {
		return none, err
	}
	return Completed{&Next{Token: ticket.Sign(s.keys.Current(ctx), next.Attempt), Request: next.Message}}, nil
}

// post accepts a batch. Errors: errs.Unauthenticated for an invalid token of an
// attempt, errs.TooMany, errs.Unprocessable for a file that the attempt may not
// save or open.
func (s *service) post(ctx context.Context, in *postIn) (Fence, error) {
	attempt, err := s.attempt(ctx, in.Authorization)
	if err != nil {
		return Fence{}, err
	}
	events, err := s.events(attempt, in.Body)
	if err != nil {
		return Fence{}, err
	}
	link, err := s.file(attempt, in.Body)
	if err != nil {
		return Fence{}, err
	}
	runner := worker.Runner{Attempt: attempt, ID: in.Body.Runner}
	fence, err := s.take(ctx, runner, events)
	if err == nil && !fence.Cancelled && in.Body.Renew {
		fence.Cancelled, err = s.tasks().Renew(ctx, runner)
	}
	if err != nil || fence.Cancelled || link == nil {
		return fence, err
	}
	fence.Reference, fence.URL, err = link(ctx)
	return fence, err
}

// events converts a batch to log events of the run, within the attempt's
// limits. Errors: errs.TooMany.
func (s *service) events(a ticket.Attempt, b Batch) ([]runlog.Event, error) {
	now := s.clock.Now()
	out := make([]runlog.Event, len(b.Events))
	size := 0
	for i, e := range b.Events {
		fields, err := fieldsOf(e)
		if err != nil {
			return nil, err
		}
		size += len(e.Message) + len(e.Logger) + len(fields)
		at, err := time.Parse(time.RFC3339, e.Timestamp)
		if err != nil || at.After(now) { // the sandbox's clock may differ from ours
			at = now
		}
		out[i] = runlog.Event{
			EventType: runlog.TypeLog, Level: e.Level, Logger: e.Logger, Message: e.Message, Fields: fields,
			Timestamp: clock.ToMillis(at), RunID: a.Run, TaskName: a.Task, MapIndex: a.MapIndex, Attempt: a.Number,
			TaskRunID: runstate.TaskRunID(a.Run, engine.Node(a.Node), a.Number), Sequence: e.Sequence,
		}
	}
	if wait := s.limits.admit(a, size, b.forFile(), now); wait > 0 {
		return nil, &errs.Error{Code: errs.TooMany, Message: "the task writes more log or takes more files than is allowed", RetryAfter: wait}
	}
	return out, nil
}

// fieldsOf returns an event's fields as one object, or none if there are too
// many.
func fieldsOf(e Event) (json.RawMessage, error) {
	if len(e.Fields) == 0 {
		return nil, nil
	}
	fields, err := json.Marshal(e.Fields)
	if err != nil || len(fields) > 2*sandbox.MaxFields { // escapes and masking may lengthen them
		return nil, err
	}
	return fields, nil
}

// take stores events of an attempt, the first ones after that of its start, and
// reports whether the attempt must stop: because its run was stopped or has
// ended, or because another attempt has replaced it. Events of an ended run are dropped, because its log is closed.
func (s *service) take(ctx context.Context, r worker.Runner, events []runlog.Event) (Fence, error) {
	a := r.Attempt
	run, err := table.Load[runstate.Run](ctx, s.table, runstate.RunKey(a.Org, a.Run), table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return Fence{Cancelled: true}, nil
	}
	if err != nil {
		return Fence{}, fmt.Errorf("read run %s: %w", a.Run, err)
	}
	if run.Status.RunEnded() {
		return Fence{Cancelled: true}, nil
	}
	node, err := runstate.LoadNode(ctx, s.table, a.Org, a.Run, engine.Node(a.Node))
	if err != nil {
		return Fence{}, err
	}
	current := node != nil && node.Status == engine.Running && node.Attempt == a.Number
	started := false
	if current {
		var start runlog.Event
		if start, started = s.tasks().Start(r, node); started {
			events = append([]runlog.Event{start}, events...)
		}
	}
	if len(events) > 0 {
		s.logs.Append(a.Org, a.Run, events...)
		// The runner finishes its task once this is acknowledged, and the end of the
		// run closes the log, so the events must be stored by then.
		if err := s.logs.Flush(ctx, a.Org, a.Run); err != nil {
			return Fence{}, err
		}
	}
	if started { //guard:unlogged/once false
		s.tasks().Announced(ctx, r)
	}
	return Fence{Cancelled: !current || run.Fenced(s.clock.Now()) != ""}, nil
}
