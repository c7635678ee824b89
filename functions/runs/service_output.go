package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/errs"
	"millrace/shared/run/engine"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/registry"
	"millrace/shared/run/runstate"
	"millrace/shared/run/worker"
	"millrace/shared/web/httpapi"
)

const (
	maxAnswer = 1 << 20          // bytes of a value in a response
	linkLife  = 15 * time.Minute // of the URL of a larger one
)

// value is JSON in an item, or an object.
type value struct {
	text string
	ref  string
	size int64
}

// output returns the output of a task. Errors: errs.NotFound if there is none.
func (s *service) output(ctx context.Context, in *outputQuery) (out httpapi.Stream[json.RawMessage], err error) {
	run, err := s.load(ctx, in.RunID)
	if err != nil {
		return out, err
	}
	flow, plan, err := s.plan(ctx, run)
	if err != nil {
		return out, err
	}
	node := plan.OnFailure()
	task, found := flow.Index(in.TaskName)
	if found {
		node = engine.Node(task)
	} else if flow.OnFailure == nil || flow.OnFailure.Name != in.TaskName {
		return out, errs.New(errs.NotFound, "Run %s has no task %s", run.ID, in.TaskName)
	}
	mapped := found && plan.Def(task).Mapped
	if in.MapIndex != nil && !mapped {
		return out, errs.New(errs.NotFound, "Task %s is not mapped: it has no instance %d", in.TaskName, *in.MapIndex)
	}
	item, err := runstate.LoadNode(ctx, s.table, run.Org, run.ID, node)
	if err != nil {
		return out, err
	}
	item = run.Shown(node, item)
	if !mapped {
		return s.outputOf(ctx, in, item)
	}
	return s.mapOutput(ctx, in, run, plan, task, item)
}

// outputOf returns the output of a task or an instance.
func (s *service) outputOf(ctx context.Context, in *outputQuery, item *runstate.Node) (out httpapi.Stream[json.RawMessage], err error) {
	if item == nil || item.Status == "" {
		return out, errs.New(errs.NotFound, "Task %s has not run: it has no output", in.TaskName)
	}
	newest := max(item.Attempt, 1)
	switch attempt := in.Attempt; {
	case attempt != nil && *attempt > newest:
		return out, errs.New(errs.NotFound, "Task %s has no attempt %d", in.TaskName, *attempt)
	case attempt != nil && *attempt < newest:
		return out, errs.New(errs.NotFound, "Attempt %d of task %s did not succeed: it has no output", *attempt, in.TaskName)
	case item.Status != engine.Succeeded && item.Status != engine.Reused:
		return out, errs.New(errs.NotFound, "Task %s is %s: it has no output", in.TaskName, item.Status)
	}
	return s.serve(ctx, value{item.Output, item.OutputRef, item.OutputSize})
}

// mapOutput returns the output of a mapped task: of an instance, or the list.
func (s *service) mapOutput(ctx context.Context, in *outputQuery, run *runstate.Run, plan *engine.Plan, task int, item *runstate.Node) (out httpapi.Stream[json.RawMessage], err error) {
	if item != nil && item.Width == nil && item.Status == engine.Succeeded && in.MapIndex == nil && in.Attempt == nil {
		return s.outputOf(ctx, in, item) // of an empty list
	}
	if item == nil || item.Width == nil {
		return out, errs.New(errs.NotFound, "The list that task %s is mapped over is not evaluated: it has no output", in.TaskName)
	}
	first, end, _, _ := plan.MapNodes(task, *item.Width)
	source, shift := run.ID, engine.Node(0)
	if item.Status == engine.Reused {
		input, err := runstate.LoadInput(ctx, s.table, s.blob, run.Org, run.ID)
		if err != nil {
			return out, err
		}
		at, there, err := s.origin(ctx, run, input, runstate.Place{Task: engine.Node(task), First: first})
		if err != nil {
			return out, err
		}
		source, shift = at, there-first
	}
	if in.MapIndex != nil {
		n := first + engine.Node(*in.MapIndex)
		if n >= end {
			return out, errs.New(errs.NotFound, "Task %s has %d instances: there is none with map_index %d", in.TaskName, *item.Width, *in.MapIndex)
		}
		instance, err := runstate.LoadNode(ctx, s.table, run.Org, source, n+shift)
		if err != nil {
			return out, err
		}
		if source == run.ID {
			instance = run.Shown(n, instance)
		}
		return s.outputOf(ctx, in, instance)
	}
	switch {
	case in.Attempt != nil:
		return out, errs.New(errs.NotFound, "A mapped task has attempts of its instances only: name one by map_index")
	case !item.Status.Terminal():
		return out, errs.New(errs.NotFound, "Task %s is %s: it has no output", in.TaskName, item.Status)
	case item.Output != "" || item.OutputRef != "":
		return s.serve(ctx, value{item.Output, item.OutputRef, item.OutputSize})
	case *item.Width == 0:
		return httpapi.Whole(json.RawMessage("[]")), nil
	}
	span := runstate.Span{From: first + shift, To: end + shift}
	return httpapi.Parts[json.RawMessage](func(ctx context.Context, w http.ResponseWriter) error {
		return worker.WriteOutputs(ctx, s.table, s.blob, run.Org, source, span, w)
	}), nil
}

// result returns the result of a run. Errors: errs.NotFound if there is none.
func (s *service) result(ctx context.Context, in *runPath) (out httpapi.Stream[json.RawMessage], err error) {
	run, err := s.load(ctx, in.RunID)
	if err != nil {
		return out, err
	}
	item, err := s.resultOf(ctx, run)
	switch {
	case err != nil:
		return out, err
	case item == nil:
		return out, errs.New(errs.NotFound, "Run %s has no result", run.ID)
	case item.Error != "":
		return out, errs.New(errs.NotFound, "The result of run %s has no value: %s", run.ID, item.Error)
	}
	return s.serve(ctx, value{item.Output, item.OutputRef, item.OutputSize})
}

// resultOf reads the result of a run, nil unless it SUCCEEDED.
func (s *service) resultOf(ctx context.Context, run *runstate.Run) (*runstate.Result, error) {
	if run.Status != engine.Succeeded {
		return nil, nil
	}
	return runstate.LoadResult(ctx, s.table, run.Org, run.ID)
}

// showResult sets the result of the run.
func (s *service) showResult(ctx context.Context, flow *flowspec.Flow, r *reader, out *RunDetail) error {
	if template, err := flow.ResultTemplate(); template == nil && err == nil {
		return nil
	}
	item, err := s.resultOf(ctx, r.run)
	if err != nil || item == nil {
		return err
	}
	out.ResultError = orNull(item.Error)
	if item.OutputRef == "" {
		out.Result = json.RawMessage(item.Output)
		return nil
	}
	out.ResultURI = ptr(registry.ArtifactURI(item.OutputRef))
	if item.OutputSize > int64(r.outputs.left) {
		return nil
	}
	data, err := s.object(ctx, item.OutputRef, item.OutputSize)
	if err == nil {
		r.outputs.left -= len(data)
		out.Result, out.ResultURI = data, nil
	}
	return nil
}

// serve responds with a value, or with a redirect to it. Errors: blob.ErrNotFound,
// blob.ErrDamaged if the object that it is stored in is lost.
func (s *service) serve(ctx context.Context, v value) (out httpapi.Stream[json.RawMessage], err error) {
	if v.text == "" && v.ref == "" {
		v.text = "null"
	}
	if v.ref == "" {
		return httpapi.Whole(json.RawMessage(v.text)), nil
	}
	if v.size <= maxAnswer {
		data, err := s.object(ctx, v.ref, v.size)
		if !errors.Is(err, errNotJSON) {
			return httpapi.Whole(data), err
		}
	}
	// The link of a lost object answers 404, as if there were no output.
	if _, err := s.blob.Head(ctx, v.ref); err != nil { //guard:runs/lost-output false
		return out, fmt.Errorf("find output: %w", err)
	}
	url, err := s.blob.PresignGet(ctx, v.ref, linkLife, "")
	return httpapi.RedirectTo[json.RawMessage](url), err
}

// errNotJSON means that an output written by user code is not JSON.
var errNotJSON = errors.New("runs: not JSON")

// object reads an output that is an object. Errors: blob.ErrNotFound,
// blob.ErrDamaged if it is lost; errNotJSON.
func (s *service) object(ctx context.Context, key string, size int64) (json.RawMessage, error) {
	data, _, err := blob.GetBytes(ctx, s.blob, key, size)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read output: %w", err)
	case !utf8.Valid(data) || !json.Valid(data):
		return nil, errNotJSON
	}
	return bytes.TrimSpace(data), nil
}
