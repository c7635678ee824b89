package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"millrace/localstack/proof/faults"
	"millrace/shared/platform/blob"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runstate"
)

// simulated executes drawn tasks. When an attempt begins it checks the
// invariants against the store. inner executes tasks of other types.
type simulated struct {
	s     *sim
	p     *proc
	inner executor.Executor
}

// Instant returns inner's.
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
	item, run := e.s.begins(e.p, a, node)
	if !a.Resumed && item.Deferred < e.s.defers(a) {
		return e.s.unstarted(a)
	}
	if e.inner != nil {
		return e.inner.Execute(ctx, a)
	}
	defer e.s.begin(e.p, a, node)()
	return e.s.execute(ctx, e.p, a, item, e.s.generation(run))
}

// execute executes what was drawn for an attempt.
func (s *sim) execute(ctx context.Context, p *proc, a *executor.Attempt, item *runstate.Node, gen int) executor.Result {
	task, index, instance := s.flow.onFailure, len(s.flow.tasks), 0
	if a.Task.Name != "cleanup" {
		_, _ = fmt.Sscanf(a.Task.Name, "t%d", &index)
		task = &s.flow.tasks[index]
		if !s.disturbed { // the reads count as the task's time
			s.inputs(ctx, a, task)
		}
	}
	if a.MapIndex != nil {
		instance = *a.MapIndex
		s.checkElement(a, task, instance)
	}
	s.checkGiven(a)
	s.write(p, a, task.lines)
	if item.Lost < task.killed(gen, instance) {
		s.kill(p)
		<-ctx.Done()
		return ok("null")
	}
	try := a.Number - item.Lost // attempts lost with their workers do not count
	if try < 1 {
		s.tell("%s: attempt %d of %d lost: %+v", a.Task.Name, a.Number, item.Lost, *item)
		return ok("null")
	}
	switch task.act(gen, instance, try) {
	case actHang:
		<-ctx.Done()
		s.write(p, a, min(task.lines, 1))
		return ok("null")
	case actFail:
		return executor.Failed(executor.TaskFailed, "as drawn")
	case actFinal:
		if task.large {
			return executor.Final(executor.TaskFailed, "as drawn: %s", strings.Repeat("m", 2*runstate.MaxMessage))
		}
		return executor.Final(executor.TaskFailed, "as drawn")
	case actPanic:
		panic("as drawn")
	case actStuck:
		<-ctx.Done()
		time.Sleep(20 * time.Second)
	case actSlow:
		select {
		case <-time.After(task.slow()):
		case <-ctx.Done():
		}
		s.write(p, a, task.lines)
	}
	if task == s.flow.onFailure {
		return executor.Result{}
	}
	return s.handOn(ctx, p, a, s.flow.output(index, instance, a.Number, gen))
}

// kill makes a process die at once.
func (s *sim) kill(p *proc) {
	s.mu.Lock()
	p.diedAt = time.Now()
	s.mu.Unlock()
	p.Kill()
}

// checkElement checks that an instance has the element of its map's list.
func (s *sim) checkElement(a *executor.Attempt, task *simTask, index int) {
	if !s.flow.tasks[task.mapOn].mapped() {
		if string(a.Item) != s.flow.element(task.mapOn, index) {
			s.tell("%s[%d] was given %.100s", a.Task.Name, index, a.Item)
		}
		return
	}
	var list []any
	var got any
	err := errors.Join(json.Unmarshal([]byte(s.stored(s.item(a.Org, a.RunID, task.mapOn))), &list), json.Unmarshal(a.Item, &got))
	if err != nil || index >= len(list) || !reflect.DeepEqual(list[index], got) {
		s.tell("%s[%d] was given %.100s of a list of %d (%v)", a.Task.Name, index, a.Item, len(list), err)
	}
}

// generation returns how many retries precede a run.
func (s *sim) generation(run *runstate.Run) int {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if r := s.store.byID[run.ID]; r != nil {
		return r.gen
	}
	return 0
}

// begins checks the invariants of the beginning of an attempt.
func (s *sim) begins(p *proc, a *executor.Attempt, n engine.Node) (*runstate.Node, *runstate.Run) {
	what := number(a.RunID, n, a.Number) + " (" + a.Task.Name + ")"
	run, err := runstate.GetRun(s.ctx, s.store, a.Org, a.RunID, time.Now())
	if err != nil {
		s.tell("%s: %v", what, err)
		return &runstate.Node{}, &run
	}
	if run.Status != engine.Running && run.Status != engine.CancellationRequested {
		s.tell("%s began in a run that is %s", what, run.Status)
	}
	item, err := runstate.LoadNode(s.ctx, s.store, a.Org, a.RunID, n)
	if err != nil || item == nil {
		s.tell("%s began without an item: %v", what, err)
		return &runstate.Node{}, &run
	}
	now := p.clock.Now()
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

// ruleHolds checks the trigger rule of a beginning task against the stored
// statuses.
func (s *sim) ruleHolds(what string, a *executor.Attempt, run *runstate.Run) {
	if a.Task.Name == "cleanup" {
		for i, t := range s.flow.tasks {
			if st := s.item(a.Org, run.ID, i); st == nil || !st.Status.Terminal() {
				s.tell("%s began before %s was finished", what, t.name)
			}
		}
		return
	}
	var index int
	_, _ = fmt.Sscanf(a.Task.Name, "t%d", &index)
	failed, skipped := 0, 0
	for _, d := range s.flow.tasks[index].deps {
		dep := s.item(a.Org, run.ID, d)
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

// inputs checks that a task gets the outputs that its dependencies stored.
func (s *sim) inputs(ctx context.Context, a *executor.Attempt, task *simTask) {
	for _, d := range task.deps[:min(len(task.deps), 4)] { // more would take all the time of a wide join's task
		name := s.flow.tasks[d].name
		v, err := a.Output(ctx, name)
		if err != nil {
			continue // a read that failed as drawn
		}
		got := string(v.JSON)
		if v.JSON == nil {
			got = s.objectOf(v.Ref)
		}
		if want := s.stored(s.item(a.Org, a.RunID, d)); got != want {
			s.tell("%s of %s was handed %.120s of %s, which stored %.120s", a.Task.Name, a.RunID, got, name, want)
		}
	}
}

// handOn returns an output. Some large ones are uploaded by the executor, if
// nothing fails: that would take the task's time.
func (s *sim) handOn(ctx context.Context, p *proc, a *executor.Attempt, output string) executor.Result {
	if !s.disturbed && len(output) > runstate.MaxInline && len(a.TaskRunID)%2 == 0 {
		_, err := blob.PutBytes(ctx, p.config.Blob, a.OutputKey, []byte(output), blob.PutOptions{})
		if err == nil {
			return executor.Result{Output: executor.Value{Ref: a.OutputKey, Size: int64(len(output))}}
		}
	}
	return ok(output)
}
