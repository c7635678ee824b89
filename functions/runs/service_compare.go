package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

// RunComparison compares run B with run A.
type RunComparison struct {
	RunA            ComparedRun      `json:"run_a"`
	RunB            ComparedRun      `json:"run_b"`
	Status          StatusComparison `json:"status"`
	Flow            FlowComparison   `json:"flow"`
	DurationDeltaMS *int64           `json:"duration_delta_ms" doc:"B minus A: positive when B took longer"`
	CostDelta       *float64         `json:"cost_delta"`
	Parameters      ParameterChanges `json:"parameters"`
	Tasks           []ComparedTask   `json:"tasks" doc:"In the order of run A's flow_spec, then what only run B has"`
}

// ComparedRun is one of two runs.
type ComparedRun struct {
	RunRecord
	Cost *float64 `json:"cost"`
}

// StatusComparison has both statuses.
type StatusComparison struct {
	A       string `json:"a"`
	B       string `json:"b"`
	Changed bool   `json:"changed"`
}

// FlowComparison has the flow versions of both runs.
type FlowComparison struct {
	A              ComparedFlow `json:"a"`
	B              ComparedFlow `json:"b"`
	NameChanged    bool         `json:"name_changed"`
	VersionChanged bool         `json:"version_changed"`
}

// ComparedFlow is a flow version.
type ComparedFlow struct {
	FlowName    string `json:"flow_name"`
	FlowVersion string `json:"flow_version"`
}

// ParameterChanges lists the parameters that differ, by name.
type ParameterChanges struct {
	Added   map[string]json.RawMessage `json:"added" doc:"Only run B has them"`
	Removed map[string]json.RawMessage `json:"removed" doc:"Only run A has them"`
	Changed map[string]ChangedValue    `json:"changed"`
}

// ChangedValue is a parameter of both runs.
type ChangedValue struct {
	A json.RawMessage `json:"a"`
	B json.RawMessage `json:"b"`
}

// ComparedTask is a task in both runs, matched by name.
type ComparedTask struct {
	TaskName        string    `json:"task_name"`
	A               *TaskSide `json:"a" doc:"Null if run A has no such task"`
	B               *TaskSide `json:"b" doc:"Null if run B has no such task"`
	DurationDeltaMS *int64    `json:"duration_delta_ms"`
	StatusChanged   bool      `json:"status_changed"`
}

// TaskSide is the latest attempt of a task in one run, or a mapped task as a
// whole.
type TaskSide struct {
	Status     string   `json:"status"`
	Attempt    int      `json:"attempt"`
	StartedAt  *string  `json:"started_at"`
	EndedAt    *string  `json:"ended_at"`
	DurationMS *int64   `json:"duration_ms"`
	Cost       *float64 `json:"cost"`
}

// side is the compared data of one run.
type side struct {
	run    *runstate.Run
	params map[string]json.RawMessage
	names  []string // in the order of the flow
	tasks  map[string]*TaskSide
}

// compare compares two runs. Errors: errs.NotFound.
func (s *service) compare(ctx context.Context, in *compareQuery) (RunComparison, error) {
	a, err := s.side(ctx, in.RunA)
	if err != nil {
		return RunComparison{}, err
	}
	b, err := s.side(ctx, in.RunB)
	if err != nil {
		return RunComparison{}, err
	}
	out := RunComparison{
		RunA: ComparedRun{RunRecord: record(a.run)}, RunB: ComparedRun{RunRecord: record(b.run)},
		Status: StatusComparison{string(a.run.Status), string(b.run.Status), a.run.Status != b.run.Status},
		Flow: FlowComparison{
			A: ComparedFlow{a.run.Flow, a.run.Version}, B: ComparedFlow{b.run.Flow, b.run.Version},
			NameChanged: a.run.Flow != b.run.Flow, VersionChanged: a.run.Version != b.run.Version,
		},
		Tasks: []ComparedTask{},
	}
	out.DurationDeltaMS = delta(out.RunA.DurationMS, out.RunB.DurationMS)
	if out.Parameters, err = changes(a.params, b.params); err != nil {
		return RunComparison{}, err
	}
	for _, name := range a.names {
		out.Tasks = append(out.Tasks, pair(name, a.tasks[name], b.tasks[name]))
	}
	for _, name := range b.names {
		if a.tasks[name] == nil {
			out.Tasks = append(out.Tasks, pair(name, nil, b.tasks[name]))
		}
	}
	return out, nil
}

// side reads one run without its outputs.
func (s *service) side(ctx context.Context, id string) (*side, error) {
	run, err := s.load(ctx, id)
	if err != nil {
		return nil, err
	}
	r, err := s.reader(ctx, run)
	if err != nil {
		return nil, err
	}
	r.status = make([]engine.Status, len(r.flow.Tasks))
	out := &side{run: run, params: r.input.Parameters, tasks: map[string]*TaskSide{}}
	add := func(name string, item *runstate.Node) {
		t := &TaskSide{Attempt: 1}
		if item != nil {
			t.Attempt, t.Status = max(item.Attempt, 1), string(r.settled(item))
			t.StartedAt, t.EndedAt, t.DurationMS = at(item.StartedAt), at(item.EndedAt), between(item.StartedAt, item.EndedAt)
		}
		out.names, out.tasks[name] = append(out.names, name), t
	}
	err = r.each(ctx, run.ID, 0, r.plan.OnFailure()+1, func(n engine.Node, item *runstate.Node) error {
		switch {
		case n == r.plan.End():
		case n < r.plan.End():
			if item != nil {
				r.status[n] = item.Status
			}
			add(r.flow.Tasks[n].Name, item)
		case item != nil && r.flow.OnFailure != nil:
			add(r.flow.OnFailure.Name, item)
		}
		return nil
	}, runstate.Light)
	for i, task := range r.flow.Tasks {
		if t := out.tasks[task.Name]; t != nil && t.Status == "" {
			t.Status = string(r.unreached(r.ready(i)))
		}
	}
	return out, err
}

func pair(name string, a, b *TaskSide) ComparedTask {
	out := ComparedTask{TaskName: name, A: a, B: b, StatusChanged: a == nil || b == nil || a.Status != b.Status}
	if a != nil && b != nil {
		out.DurationDeltaMS = delta(a.DurationMS, b.DurationMS)
	}
	return out
}

// delta returns b minus a, null if one is missing.
func delta(a, b *int64) *int64 {
	if a == nil || b == nil {
		return nil
	}
	return ptr(*b - *a)
}

// changes compares parameters by value, independent of white space and the
// order of keys.
func changes(a, b map[string]json.RawMessage) (ParameterChanges, error) {
	out := ParameterChanges{
		Added: map[string]json.RawMessage{}, Removed: map[string]json.RawMessage{}, Changed: map[string]ChangedValue{},
	}
	for name, va := range a {
		vb, both := b[name]
		if !both {
			out.Removed[name] = va
			continue
		}
		x, errA := decode(va)
		y, errB := decode(vb)
		if err := errors.Join(errA, errB); err != nil {
			return out, fmt.Errorf("compare parameter %s: %w", name, err)
		}
		if !reflect.DeepEqual(x, y) {
			out.Changed[name] = ChangedValue{va, vb}
		}
	}
	for name, vb := range b {
		if _, both := a[name]; !both {
			out.Added[name] = vb
		}
	}
	return out, nil
}
