package conductor_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"millrace/localstack/proof/faults"
	"millrace/shared/blob"
	"millrace/shared/conductor"
	"millrace/shared/engine"
	"millrace/shared/executor"
	"millrace/shared/registry"
	"millrace/shared/runstate"
)

// simulated runs a drawn task: what it does is drawn, and when it begins the
// invariants are checked against the store itself. inner does the work of tasks
// that are not drawn.
type simulated struct {
	s     *sim
	p     *proc
	inner executor.Executor
}

// Instant is that of the executor within.
func (e simulated) Instant() bool { return e.inner != nil && e.inner.Instant() }

// Execute runs an attempt.
func (e simulated) Execute(ctx context.Context, a *executor.Attempt) executor.Result {
	if e.p.dead() {
		return executor.Failed(executor.TaskFailed, "%v", faults.ErrDead) // a dead process runs nothing
	}
	var n, attempt int
	rest := strings.TrimPrefix(a.TaskRunID, a.RunID+"-")
	if _, err := fmt.Sscanf(rest, "%d-%d", &n, &attempt); err != nil {
		e.s.tell("task run id %q", a.TaskRunID)
	}
	node := engine.Node(n)
	item, run := e.s.begins(a, node)
	if e.inner != nil {
		return e.inner.Execute(ctx, a)
	}
	gen := e.s.generation(run)
	task, index, instance := e.s.flow.onFailure, len(e.s.flow.tasks), 0
	if a.Task.Name != "cleanup" {
		_, _ = fmt.Sscanf(a.Task.Name, "t%d", &index)
		task = &e.s.flow.tasks[index]
		if !e.s.pauses { // the reads count against the task's time
			e.s.inputs(ctx, a, task)
		}
	}
	if a.MapIndex != nil {
		instance = *a.MapIndex
		if string(a.Item) != itoa(instance) {
			e.s.tell("%s[%d] was given %s", a.Task.Name, instance, a.Item)
		}
	}
	try := attempt - item.Lost // attempts that were lost with their workers are no tries
	if try < 1 {
		e.s.tell("%s: attempt %d of %d lost: %+v", a.Task.Name, attempt, item.Lost, *item)
		return ok("null")
	}
	switch task.act(gen, instance, try) {
	case actHang:
		<-ctx.Done()
		return ok("null")
	case actFail:
		return executor.Failed(executor.TaskFailed, "as drawn")
	case actFinal:
		return executor.Final(executor.TaskFailed, "as drawn")
	case actSlow:
		select {
		case <-time.After(time.Duration(task.timeout-1) * time.Second):
		case <-ctx.Done():
		}
	}
	if task == e.s.flow.onFailure {
		return ok("null")
	}
	return ok(e.s.flow.output(index, instance, attempt, gen))
}

func (s *sim) generation(run *runstate.Run) int {
	if run.Parent != "" {
		return 1
	}
	return 0
}

// begins checks all that must hold when an attempt begins.
func (s *sim) begins(a *executor.Attempt, n engine.Node) (*runstate.Node, *runstate.Run) {
	what := number(a.RunID, n, a.Number) + " (" + a.Task.Name + ")"
	run, err := runstate.GetRun(s.ctx, s.store, org, a.RunID)
	if err != nil {
		s.tell("%s: %v", what, err)
		return &runstate.Node{}, &run
	}
	if run.Status != engine.Running && run.Status != engine.CancellationRequested {
		s.tell("%s began in a run that is %s", what, run.Status)
	}
	item, err := runstate.LoadNode(s.ctx, s.store, org, a.RunID, n)
	if err != nil || item == nil {
		s.tell("%s began without an item: %v", what, err)
		return &runstate.Node{}, &run
	}
	now := time.Now()
	if item.Status != engine.Running || item.Attempt != a.Number || !item.LeaseUntil.Time().After(now) {
		s.tell("%s began, and the item is %s, attempt %d, lease until %s at %s", what, item.Status, item.Attempt, item.LeaseUntil, now)
	}
	s.mu.Lock()
	s.executed[a.TaskRunID]++
	if !a.Resumed && s.executed[a.TaskRunID] > 1 {
		s.problems = append(s.problems, what+" began twice")
	}
	s.mu.Unlock()
	s.ruleHolds(what, a, &run)
	return item, &run
}

// ruleHolds checks a beginning task's trigger rule over the stored statuses.
func (s *sim) ruleHolds(what string, a *executor.Attempt, run *runstate.Run) {
	if a.Task.Name == "cleanup" {
		for i, t := range s.flow.tasks {
			if st := s.item(run.ID, i); st == nil || !st.Status.Terminal() {
				s.tell("%s began before %s was finished", what, t.name)
			}
		}
		return
	}
	var index int
	_, _ = fmt.Sscanf(a.Task.Name, "t%d", &index)
	failed, skipped := 0, 0
	for _, d := range s.flow.tasks[index].deps {
		dep := s.item(run.ID, d)
		switch {
		case dep == nil || !dep.Status.Terminal():
			s.tell("%s began before %s was finished", what, s.flow.tasks[d].name)
			return
		case dep.Status == engine.Skipped:
			skipped++
		case dep.Status != engine.Succeeded && dep.Status != engine.Reused:
			failed++
		}
	}
	var holds bool
	switch s.flow.tasks[index].rule {
	case "all_success":
		holds = failed+skipped == 0
	case "none_failed":
		holds = failed == 0
	case "one_failed":
		holds = failed > 0
	case "all_done":
		holds = true
	}
	if !holds {
		s.tell("%s began against its rule %s: %d failed, %d skipped", what, s.flow.tasks[index].rule, failed, skipped)
	}
}

// inputs checks that a task is handed what its dependencies stored.
func (s *sim) inputs(ctx context.Context, a *executor.Attempt, task *simTask) {
	for _, d := range task.deps[:min(len(task.deps), 4)] { // more would take a wide join its whole time
		name := s.flow.tasks[d].name
		v, err := a.Output(ctx, name)
		if err != nil {
			continue // a read that was made to fail
		}
		got := string(v.JSON)
		if v.JSON == nil {
			got = s.objectOf(v.Ref)
		}
		if want := s.stored(s.item(a.RunID, d)); got != want {
			s.tell("%s of %s was handed %.120s of %s, which stored %.120s", a.Task.Name, a.RunID, got, name, want)
		}
	}
}

// item reads a task's item; tasks are numbered in their order.
func (s *sim) item(run string, task int) *runstate.Node {
	item, err := runstate.LoadNode(s.ctx, s.store, org, run, engine.Node(task))
	if err != nil {
		s.tell("%v", err)
	}
	return item
}

func (s *sim) objectOf(key string) string {
	data, _, err := blob.GetBytes(s.ctx, s.blob, key, conductor.MaxOutput)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// stored is the output that a node keeps.
func (s *sim) stored(item *runstate.Node) string {
	switch {
	case item == nil || item.Output == "" && item.OutputRef == "":
		return "null"
	case item.OutputRef != "":
		return s.objectOf(item.OutputRef)
	}
	return item.Output
}

// nodes reads the items of a run by task name, instances as name[i].
func (s *sim) nodes(run *runstate.Run) map[string]*runstate.Node {
	flow, err := registry.LoadFlow(s.ctx, s.store, s.blob, org, run.SpecHash)
	if err != nil {
		s.tell("load flow: %v", err)
		return nil
	}
	plan := engine.NewPlan(engine.Defs(flow))
	items, err := runstate.LoadNodes(s.ctx, s.store, run, plan, false)
	if err != nil {
		s.tell("load nodes: %v", err)
		return nil
	}
	out := map[string]*runstate.Node{}
	for n, item := range items {
		ref, err := plan.Ref(n)
		switch {
		case err != nil:
			s.tell("%v", err)
		case ref.Kind == engine.KindTask:
			out[flow.Tasks[ref.Task].Name] = item
		case ref.Kind == engine.KindInstance:
			out[fmt.Sprintf("%s[%d]", flow.Tasks[ref.Task].Name, ref.Index)] = item
		case ref.Kind == engine.KindOnFailure:
			out[flow.OnFailure.Name] = item
		}
	}
	return out
}
