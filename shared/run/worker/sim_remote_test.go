package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"millrace/shared/platform/errs"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runstate"
	"millrace/shared/run/sandbox/ticket"
	"millrace/shared/run/worker"
)

// remotes stands in for a sandbox that starts runners which nobody waits for.
// What happens to each is drawn.
type remotes struct {
	w     *world
	odds  remoteOdds
	takes []time.Duration // of tasks
	left  time.Duration   // of a runner that has completed an attempt
	fails map[string]int  // by task: how many attempts fail, besides those that are lost

	ended sync.WaitGroup // of the runners

	mu       sync.Mutex
	rng      *rand.Rand
	vanish   int              // so many runners are not started
	limit    int64            // of slots; 0: none
	all      int64            // slots of all workspaces; 0: no limit
	running  map[string]int   // attempts that run, by workspace
	most     map[string]int   // the most of them so far
	fated    string           // the task whose runners die, are refused or do not start it; empty: any
	gone     bool             // no runner can be started, and attempts are executed
	live     []*worker.Worker // that answer runners
	started  map[string]int   // by id of the attempt: runners that began it
	runners  int
	told     map[string]int // what happened, for the test of the test
	problems []string
}

// remoteOdds are the probabilities of faults.
type remoteOdds struct{ Refuse, Lose, Twice, Late, VeryLate, Die, Resend, Stray, Cut, Lines, Unstarted float64 }

func (r *remotes) problem(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// hit draws whether a fault happens.
func (r *remotes) hit(name string, odds float64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rng.Float64() >= odds {
		return false
	}
	r.told[name]++
	return true
}

// hits is hit for what happens to the fated task.
func (r *remotes) hits(t ticket.Attempt, name string, odds float64) bool {
	return (r.fated == "" || r.fated == t.Task) && r.hit(name, odds)
}

func (r *remotes) drawn(list []time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return list[r.rng.IntN(len(list))]
}

// any returns a living worker.
func (r *remotes) any() *worker.Worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live[r.rng.IntN(len(r.live))]
}

func (*remotes) Instant() bool        { return false }
func (*remotes) Dispatches() bool     { return true }
func (r *remotes) Serves(string) bool { return !r.gone }

func (r *remotes) Execute(context.Context, *executor.Attempt) executor.Result {
	if r.gone {
		return executor.Final(executor.SandboxFailed, "the tier is gone")
	}
	r.problem("an attempt that is to be handed off was executed")
	return ok("null")
}

// Dispatch starts a runner, none or two.
func (r *remotes) Dispatch(_ context.Context, mode string, t ticket.Attempt) error {
	if mode != "nano" && mode != "small" || t.Org != org || t.Nonce == "" {
		r.problem("dispatched in %s: %+v", mode, t)
	}
	refused := r.hits(t, "refuse", r.odds.Refuse)
	if refused && !r.hit("stray", r.odds.Stray) {
		return errors.New("busy")
	}
	n := 1
	r.mu.Lock()
	vanished := r.vanish > 0
	r.vanish--
	r.mu.Unlock()
	if vanished || r.hit("lose", r.odds.Lose) {
		n = 0
	} else if r.hit("twice", r.odds.Twice) {
		n = 2
	}
	for range n {
		after := 100 * time.Millisecond
		switch {
		case r.hit("late", r.odds.Late):
			after = time.Minute
		case r.hit("very late", r.odds.VeryLate):
			after = worker.HandOff + time.Minute
		}
		r.ended.Go(func() {
			time.Sleep(after)
			r.run(t)
		})
	}
	if refused {
		if r.hit("cut", r.odds.Cut) { // when the runner has begun
			time.Sleep(time.Second)
		}
		return errors.New("the connection was cut")
	}
	return nil
}

// briefed is the message of an attempt.
type briefed struct {
	Attempt string
	Takes   time.Duration
}

func (r *remotes) Request(_ context.Context, a *executor.Attempt) (json.RawMessage, executor.Result) {
	message, _ := json.Marshal(briefed{a.TaskRunID, r.drawn(r.takes)})
	return message, executor.Result{}
}

// answered is a runner's answer.
type answered struct {
	Attempt   string
	Fails     bool
	Unstarted string
}

func (r *remotes) Result(_ context.Context, a *executor.Attempt, answer json.RawMessage) (executor.Result, time.Duration, error) {
	var got answered
	if err := json.Unmarshal(answer, &got); err != nil {
		return executor.Result{}, 0, err
	}
	if got.Attempt != a.TaskRunID {
		r.problem("the answer of %s for %s", got.Attempt, a.TaskRunID)
	}
	if got.Unstarted != "" {
		return executor.NotStarted(errors.New(got.Unstarted)), 0, nil
	}
	if got.Fails {
		return executor.Failed(executor.TaskFailed, "as drawn"), time.Millisecond, nil
	}
	return ok(fmt.Sprintf("%q", got.Attempt)), time.Millisecond, nil
}

// persist repeats a request to any worker, as a runner does. It returns whether
// it was accepted, or refused for good.
func (r *remotes) persist(do func(*worker.Worker) error) bool {
	for range 8 {
		err := do(r.any())
		if err == nil {
			return true
		}
		if errs.CodeOf(err) == errs.Conflict {
			return false
		}
		time.Sleep(500 * time.Millisecond)
	}
	return false
}

// run is a runner.
func (r *remotes) run(t ticket.Attempt) {
	r.mu.Lock()
	r.runners++
	me := worker.Runner{Attempt: t, ID: fmt.Sprint("r", r.runners)}
	r.mu.Unlock()
	var message json.RawMessage
	if !r.persist(func(c *worker.Worker) (err error) {
		message, err = c.Begin(r.w.ctx, me)
		return err
	}) {
		return
	}
	for message != nil {
		next := r.make(me, message)
		if next == nil {
			return
		}
		r.mu.Lock()
		r.told["hand on"]++
		r.mu.Unlock()
		me.Attempt, message = next.Attempt, next.Message
	}
}

// begins counts an attempt that runs, until over is called.
func (r *remotes) begins(org string) (over func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[org]++
	r.most[org] = max(r.most[org], r.running[org])
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.running[org]--
	})
}

// announce logs the start of a runner's attempt, as its first post does, and
// reports whether the log lacked it.
func (r *remotes) announce(me worker.Runner) bool {
	c, t := r.any(), me.Attempt
	item, err := runstate.LoadNode(r.w.ctx, r.w.plain, t.Org, t.Run, engine.Node(t.Node))
	if err != nil {
		r.problem("%v", err)
		return false
	}
	start, lacks := c.Start(me, item)
	if lacks {
		c.Logs.Append(t.Org, t.Run, start)
		if c.Logs.Flush(r.w.ctx, t.Org, t.Run) == nil {
			c.Announced(r.w.ctx, me)
		}
	}
	return lacks
}

// make makes an attempt that a runner has begun, and returns the one that it
// begins thereby, nil if there is none.
func (r *remotes) make(me worker.Runner, message json.RawMessage) (next *worker.Next) {
	t := me.Attempt
	var got briefed
	if err := json.Unmarshal(message, &got); err != nil {
		r.problem("message %s: %v", message, err)
	}
	item, err := runstate.LoadNode(r.w.ctx, r.w.plain, t.Org, t.Run, engine.Node(t.Node))
	if err != nil {
		r.problem("%v", err)
		return nil
	}
	r.mu.Lock()
	r.started[got.Attempt]++
	fails := r.fails[t.Task] >= t.Number-item.Lost
	r.mu.Unlock()
	over := r.begins(t.Org)
	defer over()
	if r.hits(t, "die", r.odds.Die) {
		return nil
	}
	for left := got.Takes; left > 0; left -= worker.Heartbeat {
		time.Sleep(min(left, worker.Heartbeat))
		if r.hit("lines", r.odds.Lines) { // as with a post of lines
			r.announce(me)
		}
		stop, err := r.any().Renew(r.w.ctx, me)
		if err == nil && stop {
			break // the answer is posted all the same
		}
	}
	over()
	answer, _ := json.Marshal(answered{Attempt: got.Attempt, Fails: fails})
	if r.hits(t, "unstarted", r.odds.Unstarted) {
		answer, _ = json.Marshal(answered{Attempt: got.Attempt, Unstarted: "no memory"})
	}
	again := 1
	if r.hit("resend", r.odds.Resend) {
		again = 2
	}
	for range again { // the answer to the last one is not lost
		next = nil
		r.persist(func(c *worker.Worker) (err error) {
			next, err = c.Continue(r.w.ctx, me, answer, r.left)
			return err
		})
	}
	return next
}
