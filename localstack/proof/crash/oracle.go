package crash

import (
	"fmt"

	"millrace/shared/run/engine"
)

// verdict is the expected result of a run: its status and those of its tasks,
// instances as name[i].
type verdict struct {
	run   engine.Status
	nodes map[string]engine.Status
}

// reuse has the results that a retry reuses from its source run, by node: REUSED, or SKIPPED
// for a skipped task.
type reuse map[string]engine.Status

func instance(name string, i int) string { return fmt.Sprintf("%s[%d]", name, i) }

// ending returns the status in which a task, or an instance of it, ends if it
// runs.
func (t *task) ending(repaired bool, index int) engine.Status {
	switch {
	case t.kind == faulty, t.kind == down && !repaired, index >= 0 && index == t.bad:
		return engine.Failed
	case t.kind == pyStuck:
		return engine.TimedOut
	}
	return engine.Succeeded
}

// judge computes the expected result of a run of the flow.
func (f *flow) judge(repaired bool, taken reuse) verdict {
	v := verdict{nodes: map[string]engine.Status{}}
	outcomes := make([]engine.Outcome, len(f.tasks))
	sink := make([]bool, len(f.tasks))
	for i := range f.tasks {
		t := &f.tasks[i]
		sink[i] = true
		var sets engine.Sets
		for _, d := range t.deps {
			sets.Add(outcomes[d])
			sink[d] = false
		}
		v.nodes[t.name], outcomes[i] = f.node(t, sets, repaired, taken, v.nodes)
	}
	worst := engine.OutcomeOK
	for i := range f.tasks {
		if sink[i] {
			worst = max(worst, outcomes[i])
		}
	}
	v.run = engine.RunStatus(worst)
	if v.run != engine.Succeeded && f.onFailure {
		v.nodes["cleanup"] = engine.Succeeded
	}
	return v
}

// node returns the expected status of a task whose dependencies ended as in
// sets, and adds those of its instances to nodes.
func (f *flow) node(t *task, sets engine.Sets, repaired bool, taken reuse, nodes map[string]engine.Status) (engine.Status, engine.Outcome) {
	if st, ok := taken[t.name]; ok {
		return st, st.Outcome()
	}
	status, carried := engine.Running, engine.OutcomeOK
	if sets.Count() > 0 || t.rule == engine.OneFailed {
		status, carried = t.rule.Decide(sets)
	}
	switch {
	case status != engine.Running:
		return status, carried
	case t.never:
		return engine.Skipped, engine.OutcomeSkipped
	case t.width < 0:
		status = t.ending(repaired, -1)
	default:
		worst := engine.OutcomeOK
		for i := range t.width {
			name := instance(t.name, i)
			st, ok := taken[name]
			if !ok {
				st = t.ending(repaired, i)
			}
			nodes[name] = st
			worst = max(worst, st.Outcome())
		}
		status = engine.MapStatus(worst)
	}
	return status, status.Outcome()
}
