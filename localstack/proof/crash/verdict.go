package crash

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"millrace/localstack/proof/fsck"
	"millrace/shared/run/engine"
	"millrace/shared/run/worker"
)

// Judge compares the final store with requests and responses, and with the
// expected results of the flows.
func (h *History) Judge(s *fsck.Snapshot) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := &judgement{History: h, store: s, byID: map[string]*fsck.Run{}, tries: map[string]int{}}
	for _, run := range s.Runs() {
		j.byID[run.ID] = run
	}
	for id, r := range h.runs {
		run := j.byID[id]
		switch {
		case run == nil:
			j.tell("run %s was accepted and is not there", id)
			continue
		case r.stopped && run.Status != engine.Cancelled:
			j.tell("run %s was cancelled and is %s", id, run.Status)
		case r.ended != "" && r.ended != string(run.Status):
			j.tell("run %s was %s and is %s", id, r.ended, run.Status)
		case r.parent != run.Parent:
			j.tell("run %s has the parent %q, asked for was %q", id, run.Parent, r.parent)
		}
	}
	for _, run := range s.Runs() {
		if f := h.flow(run.Run.Flow); f != nil && run.Plan != nil {
			j.run(f, run)
		}
	}
	h.mayCall(j)
	return slices.Concat(h.problems, j.problems)
}

// flow returns the flow with a name; nil for one that is not run.
func (h *History) flow(name string) *flow {
	for _, f := range h.flows {
		if f.name == name {
			return f
		}
	}
	return nil
}

type judgement struct {
	*History
	store    *fsck.Snapshot
	byID     map[string]*fsck.Run
	tries    map[string]int // attempts by "tag/task"
	problems []string
}

func (j *judgement) tell(format string, args ...any) {
	j.problems = append(j.problems, fmt.Sprintf(format, args...))
}

// names returns a run's nodes by their names in verdicts.
func names(run *fsck.Run) map[string]engine.Node {
	out := map[string]engine.Node{}
	for i, t := range run.Flow.Tasks {
		out[t.Name] = engine.Node(i)
		if item := run.Nodes[engine.Node(i)]; item != nil && item.Width != nil && item.Status != engine.Reused {
			for k := range *item.Width {
				out[instance(t.Name, k)] = run.Plan.Instance(i, k)
			}
		}
	}
	if run.Flow.OnFailure != nil {
		out[run.Flow.OnFailure.Name] = run.Plan.OnFailure()
	}
	return out
}

// run checks one run.
func (j *judgement) run(f *flow, run *fsck.Run) {
	tag := tagOf(run)
	lost := false
	got := map[string]engine.Status{}
	for name, n := range names(run) {
		item := run.Nodes[n]
		if item == nil || item.Status == "" {
			continue
		}
		got[name] = item.Status
		lost = lost || item.Lost >= worker.MaxLost
		if item.Status != engine.Reused {
			j.tries[tag+"/"+name] += item.Attempt
		}
		j.notes(f, run, name, n)
	}
	switch {
	case run.Fence != "", lost: // fsck has checked it
		return
	case f.deadline > 0:
		j.tell("run %s of %s is %s, and did not pass its deadline", run.ID, f.name, run.Status)
		return
	}
	want := f.judge(run.Parent != "", j.taken(run))
	if run.Status != want.run {
		j.tell("run %s of %s (parent %q) is %s, by the rules %s", run.ID, f.name, run.Parent, run.Status, want.run)
	}
	if !maps.Equal(got, want.nodes) {
		for _, name := range slices.Sorted(maps.Keys(want.nodes)) {
			if got[name] != want.nodes[name] {
				j.tell("%s of run %s of %s is %q, by the rules %q", name, run.ID, f.name, got[name], want.nodes[name])
			}
		}
		for _, name := range slices.Sorted(maps.Keys(got)) {
			if _, ok := want.nodes[name]; !ok {
				j.tell("%s of run %s of %s is %s, by the rules it is not", name, run.ID, f.name, got[name])
			}
		}
	}
}

func tagOf(run *fsck.Run) string {
	var in struct {
		Parameters struct {
			Tag string `json:"tag"`
		} `json:"parameters"`
	}
	_ = json.Unmarshal([]byte(run.Input.Data), &in)
	return in.Parameters.Tag
}

// taken returns the results that a retry reuses from its source run, according to the
// engine's plan.
func (j *judgement) taken(run *fsck.Run) reuse {
	source, asked := j.byID[run.Parent], j.runs[run.ID]
	if source == nil || !run.Partial && (asked == nil || !asked.partial) {
		return nil
	}
	status := func(n engine.Node) engine.Status {
		if item := source.Nodes[n]; item != nil && item.Status != "" {
			return item.Status
		}
		return engine.Pending
	}
	plan := source.Plan.Reuse(source.Flow.Order(), engine.Source{
		Task:     func(task int) engine.Status { return status(engine.Node(task)) },
		Instance: func(task, index int) engine.Status { return status(source.Plan.Instance(task, index)) },
		Width: func(task int) (int, bool) {
			item := source.Nodes[engine.Node(task)]
			if item == nil || item.Width == nil {
				return 0, false
			}
			return *item.Width, true
		},
	})
	out := reuse{}
	for _, task := range plan.Tasks {
		st := engine.Reused
		if status(engine.Node(task)) == engine.Skipped {
			st = engine.Skipped
		}
		out[source.Flow.Tasks[task].Name] = st
	}
	for task, list := range plan.Instances {
		for _, i := range list {
			out[instance(source.Flow.Tasks[task].Name, i)] = engine.Reused
		}
	}
	return out
}

// notes compares a Python function's reports with the store: an attempt begins
// once, the successful one ended once, and none begins after it.
func (j *judgement) notes(f *flow, run *fsck.Run, name string, n engine.Node) {
	ref, err := run.Plan.Ref(n)
	if err != nil || ref.Kind != engine.KindTask && ref.Kind != engine.KindInstance {
		return
	}
	t := &f.tasks[ref.Task]
	if run.Flow.Tasks[ref.Task].Entrypoint == "" || ref.Kind == engine.KindTask && t.width >= 0 {
		return
	}
	a := attempt{run: run.ID, task: t.name, index: -1}
	if ref.Kind == engine.KindInstance {
		a.index = ref.Index
	}
	item := run.Nodes[n]
	j.page.mu.Lock()
	defer j.page.mu.Unlock()
	for a.number = 1; a.number <= item.Attempt+1; a.number++ {
		begun, ended := j.page.begun[a], j.page.ended[a]
		last := a.number == item.Attempt
		switch {
		case begun > 1:
			j.tell("%s of run %s began its attempt %d %d times", name, run.ID, a.number, begun)
		case begun > 0 && (a.number > item.Attempt || item.Status == engine.Reused):
			j.tell("%s of run %s is %s at attempt %d and began attempt %d", name, run.ID, item.Status, item.Attempt, a.number)
		case last && item.Status == engine.Succeeded && (begun != 1 || ended != 1):
			j.tell("%s of run %s succeeded in attempt %d, which began %d times and ended %d times", name, run.ID, a.number, begun, ended)
		}
	}
}

// mayCall checks that no task called the page more often than it was attempted.
func (h *History) mayCall(j *judgement) {
	h.page.mu.Lock()
	defer h.page.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(h.page.calls)) {
		if n := h.page.calls[name]; n > j.tries[name] {
			j.tell("%s called %d times in %d attempts", name, n, j.tries[name])
		}
	}
}
