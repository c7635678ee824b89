package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"millrace/shared/platform/clock"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/registry"
	"millrace/shared/run/runstate"
)

// TaskRun is one attempt of a task, or of an instance of a mapped task.
type TaskRun struct {
	TaskName     string          `json:"task_name"`
	TaskRunID    string          `json:"task_run_id"`
	MapIndex     *int            `json:"map_index" doc:"Of an instance of a mapped task, from 0"`
	Attempt      int             `json:"attempt" doc:"From 1"`
	Status       string          `json:"status" doc:"PENDING, QUEUED, RUNNING, RETRYING, AWAITING_APPROVAL, SUCCEEDED, REUSED, SKIPPED, FAILED, TIMED_OUT, UPSTREAM_FAILED or CANCELLED"`
	QueuedMS     *int64          `json:"queued_ms" doc:"From when it was ready until its own code began, or until now; null of what never was ready"`
	StartedAt    *string         `json:"started_at" doc:"When its own code began; importing the module of a Python task comes before"`
	EndedAt      *string         `json:"ended_at"`
	DurationMS   *int64          `json:"duration_ms"`
	Reason       *string         `json:"reason,omitempty" doc:"Why a QUEUED attempt waits"`
	ErrorType    *string         `json:"error_type"`
	ErrorMessage *string         `json:"error_message" doc:"Cut short where a run has very many of them"`
	Exception    *string         `json:"exception" doc:"Class of the exception that the task raised, e.g. ConnectionError"`
	Traceback    *string         `json:"traceback" doc:"Of the task's own code, its end if it is long; null where a run has very many of them"`
	Output       json.RawMessage `json:"output,omitempty" doc:"What the task returned, unless it is given by output_uri"`
	OutputURI    *string         `json:"output_uri,omitempty" doc:"Where a large output is kept"`
	Executor     string          `json:"executor" doc:"The task's type"`

	begin, end clock.Millis // its started_at and ended_at
	lost       bool         // lost with its worker
}

// reader makes the records of a run's task attempts.
type reader struct {
	s       *service
	run     *runstate.Run
	input   *runstate.Input
	flow    *flowspec.Flow
	plan    *engine.Plan
	outputs outputs
	text    int // bytes of error messages that still fit

	status []engine.Status           // by task, "" without an item
	width  []int                     // by task: of an evaluated list, otherwise -1
	began  []clock.Millis            // by task: when a map's list was evaluated
	ended  []clock.Millis            // by task
	tasks  [][]TaskRun               // by task
	last   []TaskRun                 // on_failure
	queued func(kind string) *string // why a ready task of a type waits, unless its item has the reason
}

// reader returns a reader of a run, with the run's input, flow and plan.
func (s *service) reader(ctx context.Context, run *runstate.Run) (*reader, error) {
	input, err := runstate.LoadInput(ctx, s.table, s.blob, run.Org, run.ID)
	if err != nil {
		return nil, err
	}
	flow, plan, err := s.plan(ctx, run)
	if err != nil {
		return nil, err
	}
	return &reader{s: s, run: run, input: input, flow: flow, plan: plan}, nil
}

// plan loads the flow and the plan of a run.
func (s *service) plan(ctx context.Context, run *runstate.Run) (*flowspec.Flow, *engine.Plan, error) {
	flow, plan, err := registry.LoadPlan(ctx, s.table, s.blob, run.Org, run.SpecHash, run.Plan)
	if err != nil {
		return nil, nil, fmt.Errorf("load flow %s %s: %w", run.Flow, run.Version, err)
	}
	return flow, plan, nil
}

func (r *reader) read(ctx context.Context) ([]TaskRun, error) {
	n := r.plan.Len()
	r.status, r.width, r.tasks = make([]engine.Status, n), make([]int, n), make([][]TaskRun, n)
	r.began, r.ended = make([]clock.Millis, n), make([]clock.Millis, n)
	if err := r.readTasks(ctx); err != nil {
		return nil, err
	}
	var out []TaskRun
	for i := range r.tasks {
		switch {
		case r.width[i] > 0:
			if err := r.readInstances(ctx, i); err != nil {
				return nil, err
			}
		case r.tasks[i] == nil:
			node := engine.Node(i)
			r.tasks[i] = []TaskRun{r.bare(&r.flow.Tasks[i], node, nil, r.unreached(r.ready(i)))}
		}
		r.queue(&r.flow.Tasks[i], r.tasks[i], r.readyAt(i))
		out = append(out, r.tasks[i]...)
		r.tasks[i] = nil
	}
	if r.flow.OnFailure != nil {
		r.queue(r.flow.OnFailure, r.last, slices.Max(r.ended))
	}
	return append(out, r.last...), nil
}

// readTasks makes the records of all nodes but map instances.
func (r *reader) readTasks(ctx context.Context) error {
	return r.each(ctx, r.run.ID, 0, r.plan.OnFailure()+1, func(n engine.Node, item *runstate.Node) (err error) {
		i := int(n)
		switch {
		case n == r.plan.OnFailure():
			if item != nil && r.flow.OnFailure != nil {
				r.last, err = r.attempts(ctx, r.flow.OnFailure, n, nil, item)
			}
		case n == r.plan.End():
		case item == nil:
			r.width[i] = -1
		case item.Width != nil && *item.Width > 0:
			r.status[i], r.width[i], r.began[i], r.ended[i] = item.Status, *item.Width, item.StartedAt, item.EndedAt
		default:
			r.status[i], r.width[i], r.ended[i] = item.Status, -1, item.EndedAt
			r.tasks[i], err = r.attempts(ctx, &r.flow.Tasks[i], n, nil, item)
		}
		return err
	})
}

// each calls do for each number of a range, with its item in a run if it has
// one that was decided. It does not keep all items in memory.
func (r *reader) each(ctx context.Context, run string, from, to engine.Node, do func(engine.Node, *runstate.Node) error, opts ...runstate.NodeOption) error {
	without := func(end engine.Node) error {
		for ; from < end; from++ {
			if err := do(from, nil); err != nil {
				return err
			}
		}
		return nil
	}
	for item, err := range runstate.SpanNodes(ctx, r.s.table, r.run.Org, run, runstate.Span{From: from, To: to}, opts...) {
		if err != nil {
			return err
		}
		if run == r.run.ID {
			item = r.run.Shown(item.Number(), item)
		}
		if item.Status == "" {
			continue
		}
		if err := without(item.Number()); err != nil {
			return err
		}
		if err := do(from, item); err != nil {
			return err
		}
		from++
	}
	return without(to)
}

// readInstances makes the records of a map's instances. Those of a map that is
// reused as a whole are in the run that made them.
func (r *reader) readInstances(ctx context.Context, task int) error {
	def := &r.flow.Tasks[task]
	first, end, _, _ := r.plan.MapNodes(task, r.width[task])
	source, reused := r.run.ID, r.status[task] == engine.Reused
	shift := engine.Node(0)
	if reused {
		at, there, err := r.s.origin(ctx, r.run, r.input, runstate.Place{Task: engine.Node(task), First: first})
		if err != nil {
			return err
		}
		source, shift = at, there-first
	}
	return r.each(ctx, source, first+shift, end+shift, func(n engine.Node, item *runstate.Node) error {
		n -= shift
		index := int(n - first)
		switch {
		case reused:
			t := r.bare(def, n, &index, engine.Reused)
			r.tasks[task] = append(r.tasks[task], t)
			if item == nil {
				return nil
			}
			return r.outputs.show(ctx, &r.tasks[task][index], item)
		case item == nil:
			r.tasks[task] = append(r.tasks[task], r.bare(def, n, &index, r.unreached(r.status[task] == engine.Running)))
			return nil
		}
		made, err := r.attempts(ctx, def, n, &index, item)
		r.tasks[task] = append(r.tasks[task], made...)
		return err
	})
}

// origin returns the run whose instances a reused map refers to: the first one,
// back along the retries, in which it was not reused; and the node of the map's
// first instance there. input is the run's, at the place of the map in it.
func (s *service) origin(ctx context.Context, run *runstate.Run, input *runstate.Input, at runstate.Place) (string, engine.Node, error) {
	for from := input; from.Reuse != nil; {
		source := from.Reuse.Run
		at = from.Reuse.Place(at)
		item, err := runstate.LoadNode(ctx, s.table, run.Org, source, at.Task)
		if err != nil {
			return "", 0, err
		}
		if item == nil || item.Status != engine.Reused {
			return source, at.First, nil
		}
		if from, err = runstate.LoadInput(ctx, s.table, s.blob, run.Org, source); err != nil {
			return "", 0, err
		}
	}
	return run.ID, at.First, nil
}

// ready reports whether a task without an item only waits for a worker.
func (r *reader) ready(task int) bool {
	for _, d := range r.flow.Deps(task) {
		if !r.status[d].Terminal() {
			return false
		}
	}
	return true
}

// unreached returns the status of a node without an item.
func (r *reader) unreached(ready bool) engine.Status {
	switch {
	case r.run.Status.RunEnded():
		return engine.Cancelled
	case r.run.Status == engine.Running && ready:
		return engine.Queued
	}
	return engine.Pending
}

// bare returns a record of an attempt with no more than its status.
func (r *reader) bare(task *flowspec.Task, n engine.Node, index *int, status engine.Status) TaskRun {
	t := TaskRun{
		TaskName: task.Name, TaskRunID: runstate.TaskRunID(r.run.ID, n, 1), MapIndex: index, Attempt: 1,
		Status: string(status), Executor: task.Type,
	}
	if status == engine.Queued {
		t.Reason = r.queued(task.Type)
	}
	return t
}

// whyQueued returns the reason why ready tasks of a run wait, by their type.
func (s *service) whyQueued(run *runstate.Run) func(kind string) *string {
	known := map[string]*string{}
	return func(kind string) *string {
		why, ok := known[kind]
		if !ok {
			why = s.waits(run, kind)
			if why == nil {
				why = ptr("It is ready and waits for a worker.")
			}
			known[kind] = why
		}
		return why
	}
}

// waits returns the reason why a run's ready tasks wait; nil if it is unknown.
func (s *service) waits(run *runstate.Run, kind string) *string {
	if s.waiting == nil {
		return nil
	}
	return orNull(s.waiting(run.Org, run.Mode, kind))
}

// attempts makes the records of a node: earlier attempts, then the current one.
func (r *reader) attempts(ctx context.Context, task *flowspec.Task, n engine.Node, index *int, item *runstate.Node) ([]TaskRun, error) {
	out := make([]TaskRun, 0, len(item.History)+1)
	for _, h := range item.History {
		t := r.bare(task, n, index, h.Status)
		t.Attempt, t.TaskRunID = h.Attempt, runstate.TaskRunID(r.run.ID, n, h.Attempt)
		t.StartedAt, t.EndedAt, t.DurationMS = at(h.StartedAt), at(h.EndedAt), between(h.StartedAt, h.EndedAt)
		t.ErrorType, t.ErrorMessage = orNull(h.ErrorType), r.message(h.Error)
		t.Exception, t.Traceback = orNull(h.Exception), r.traceback(h.Traceback)
		t.begin, t.end, t.lost = h.StartedAt, h.EndedAt, h.ErrorType == executor.WorkerLost
		out = append(out, t)
	}
	ended := item.EndedAt
	if r.settled(item) == engine.Cancelled && !item.Status.Terminal() && item.StartedAt != 0 {
		ended = max(r.run.EndedAt, item.StartedAt)
	}
	t := r.bare(task, n, index, r.settled(item))
	t.Attempt = max(item.Attempt, 1)
	t.TaskRunID = runstate.TaskRunID(r.run.ID, n, t.Attempt)
	t.StartedAt, t.EndedAt, t.DurationMS = at(item.StartedAt), at(ended), between(item.StartedAt, ended)
	t.ErrorType, t.ErrorMessage = orNull(item.ErrorType), r.message(item.Error)
	t.Exception, t.Traceback, t.begin, t.end = orNull(item.Exception), r.traceback(item.Traceback), item.StartedAt, ended
	if item.Reason != "" {
		t.Reason = orNull(item.Reason)
	}
	err := r.outputs.show(ctx, &t, item)
	return append(out, t), err
}

// settled returns the status of an item. Attempts that still ran, or waited,
// when the run was stopped without their worker, are cancelled.
func (r *reader) settled(item *runstate.Node) engine.Status {
	switch {
	case r.run.Status.RunEnded() && !item.Status.Terminal():
		return engine.Cancelled
	case item.Status == engine.Running && item.Nonce != "" && item.StartedAt == 0:
		return engine.Queued // a worker has claimed it, and its own code has not begun
	}
	return item.Status
}

// traceback returns a traceback if it fits.
func (r *reader) traceback(s string) *string {
	if r.text < len(s) {
		return nil
	}
	r.text -= len(s)
	return orNull(s)
}

// message returns an error message, truncated if it does not fit.
func (r *reader) message(s string) *string {
	if len(s) > shortText && r.text < len(s) {
		end := shortText
		for s[end]&0xC0 == 0x80 { // not within a character
			end--
		}
		s = s[:end] + "…"
	}
	r.text -= min(r.text, len(s))
	return orNull(s)
}
