// Package engine is the state machine of runs: statuses and their transitions,
// the plan of a run with its joins, trigger rules, outcomes, and what a retry
// from failed reuses. It is pure: no clock, no I/O, no AWS.
package engine

import "slices"

// Status is the status of a task attempt, or of a run.
type Status string

// Statuses of tasks. A run has only those in RunTransitions.
const (
	Pending               Status = "PENDING"                // waits for the tasks that it depends on
	Queued                Status = "QUEUED"                 // waits for a worker; of a run: accepted, nothing has started
	Running               Status = "RUNNING"                // an attempt runs, or waits without a worker
	Retrying              Status = "RETRYING"               // an attempt failed, the next one starts after its delay
	AwaitingApproval      Status = "AWAITING_APPROVAL"      // reserved for approvals; no task has it yet
	Succeeded             Status = "SUCCEEDED"              // finished without an error
	Reused                Status = "REUSED"                 // succeeded in the run that this one retries, whose output it takes
	Skipped               Status = "SKIPPED"                // not run, because of its condition, its trigger rule or its dependencies
	Failed                Status = "FAILED"                 // its last attempt failed; of a run: a task at the end of the graph failed
	TimedOut              Status = "TIMED_OUT"              // its last attempt, or the run, took longer than timeout_secs
	UpstreamFailed        Status = "UPSTREAM_FAILED"        // not run, because a dependency failed
	Cancelled             Status = "CANCELLED"              // ended because the run was cancelled or had ended
	CancellationRequested Status = "CANCELLATION_REQUESTED" // a run whose tasks are being stopped
)

// RunTransitions are the transitions that a run may make. All others are
// errors. The empty status is a run that does not exist yet.
var RunTransitions = map[Status][]Status{
	"":                    {Queued},
	Queued:                {Running, Cancelled},
	Running:               {Succeeded, Failed, TimedOut, CancellationRequested},
	CancellationRequested: {Cancelled},
}

// Step is an operation that changes the status of a task's item.
type Step int

// Steps.
const (
	Claim    Step = iota // a worker takes the lease of an attempt
	Begin                // the runner to which an attempt was handed off takes its lease
	Complete             // the owner of the lease ends, suspends, releases or hands off the attempt
	Decide               // the task is decided by its dependencies, without an attempt
	Collect              // the last instance of a map ends the map
	Stop                 // the run was stopped, and no lease is alive
)

// transition is a change of a task's status by a step.
type transition struct {
	step     Step
	from, to Status
}

// taskSteps are the transitions that a task's item may make. All others are
// errors. Items are created lazily, so the empty status includes PENDING and
// QUEUED; the item of a released task, or of one that was handed off, is
// QUEUED. RUNNING to RUNNING is a new
// lease after a lost one, or of a suspended attempt.
var taskSteps = []transition{
	{Claim, "", Running}, {Claim, Queued, Running}, {Claim, Retrying, Running}, {Claim, Running, Running},
	{Claim, Running, Queued}, // the third lost lease, and those after it
	{Claim, Running, Failed}, // the tenth
	{Begin, Queued, Running},
	{Complete, Running, Running}, {Complete, Running, Queued}, {Complete, Running, Retrying},
	{Complete, Running, Succeeded}, {Complete, Running, Skipped}, {Complete, Running, Failed},
	{Complete, Running, TimedOut}, {Complete, Running, Cancelled},
	{Decide, "", Reused}, {Decide, "", Skipped}, {Decide, "", UpstreamFailed},
	{Decide, "", Failed}, // what it was to reuse has expired
	{Collect, Running, Succeeded}, {Collect, Running, Failed}, {Collect, Running, TimedOut},
	{Stop, Running, Cancelled},
}

// TaskTransitions maps each status of a task's item to those that may follow
// it.
var TaskTransitions = func() map[Status][]Status {
	out := map[Status][]Status{}
	for _, t := range taskSteps {
		if !slices.Contains(out[t.from], t.to) {
			out[t.from] = append(out[t.from], t.to)
		}
	}
	return out
}()

// From returns the statuses that a step may change to another one: the
// condition of the write.
func From(step Step, to Status) []Status {
	var from []Status
	for _, t := range taskSteps {
		if t.step == step && t.to == to {
			from = append(from, t.from)
		}
	}
	return from
}

// Terminal reports whether a task with this status is finished.
func (s Status) Terminal() bool {
	switch s {
	case Succeeded, Reused, Skipped, Failed, TimedOut, UpstreamFailed,
		Cancelled: //guard:outcome/cancelled drop
		return true
	}
	return false
}

// RunEnded reports whether a run with this status is final.
func (s Status) RunEnded() bool {
	switch s {
	case Succeeded, Failed, TimedOut, Cancelled:
		return true
	}
	return false
}

// Before returns the statuses that may precede a status of a run: the condition
// of the write.
func Before(to Status) []Status {
	var from []Status
	for f, tos := range RunTransitions {
		if f != "" && slices.Contains(tos, to) {
			from = append(from, f)
		}
	}
	slices.Sort(from)
	return from
}

// Outcome is the effect of a finished node on its dependents, from best to
// worst.
type Outcome int

// Outcomes. OutcomeFailed is that of FAILED and UPSTREAM_FAILED. An
// UPSTREAM_FAILED task whose only cause is a time-out has OutcomeTimedOut, so
// that the run ends TIMED_OUT and not FAILED.
const (
	OutcomeOK Outcome = iota
	OutcomeSkipped
	OutcomeTimedOut
	OutcomeFailed
)

// Outcome returns the outcome of a terminal status.
func (s Status) Outcome() Outcome {
	switch s {
	case Succeeded, Reused:
		return OutcomeOK
	case Skipped:
		return OutcomeSkipped
	case TimedOut: //guard:outcome/of-a-time-out drop
		return OutcomeTimedOut
	default:
		return OutcomeFailed
	}
}

// Sets counts the finished dependencies of a node by outcome.
type Sets struct{ OK, Skipped, TimedOut, Failed int }

// Count returns the number of finished dependencies.
func (s Sets) Count() int { return s.OK + s.Skipped + s.TimedOut + s.Failed }

// Add counts one more outcome.
func (s *Sets) Add(o Outcome) {
	switch o {
	case OutcomeOK:
		s.OK++
	case OutcomeSkipped:
		s.Skipped++
	case OutcomeTimedOut:
		s.TimedOut++
	default:
		s.Failed++
	}
}

// Worst returns the worst outcome counted.
func (s Sets) Worst() Outcome {
	switch {
	case s.Failed > 0: //guard:outcome/worst-failed and s.TimedOut == 0
		return OutcomeFailed
	case s.TimedOut > 0: //guard:outcome/worst-timed-out and s.Skipped == 0
		return OutcomeTimedOut
	case s.Skipped > 0:
		return OutcomeSkipped
	}
	return OutcomeOK
}

// One returns Sets with a single outcome.
func One(o Outcome) Sets {
	var s Sets
	s.Add(o)
	return s
}

// Rule is a trigger rule.
type Rule string

// Trigger rules.
const (
	AllSuccess Rule = "all_success"
	AllDone    Rule = "all_done"
	OneFailed  Rule = "one_failed"
	NoneFailed Rule = "none_failed"
)

// Decide applies a trigger rule to the outcomes of a node's dependencies, all
// of which are finished. It returns Running if the node is to run, otherwise
// Skipped or UpstreamFailed, and the node's own outcome in that case.
func (r Rule) Decide(s Sets) (Status, Outcome) {
	failed := s.Failed+s.TimedOut > 0 //guard:rule/time-outs-fail drop operand 2
	upstream := OutcomeFailed
	if s.Failed == 0 { //guard:outcome/time-out-carried false
		upstream = OutcomeTimedOut
	}
	switch r {
	case AllDone: //guard:rule/all_done drop
		return Running, OutcomeOK
	case OneFailed:
		if failed { //guard:rule/one_failed true
			return Running, OutcomeOK
		}
		return Skipped, OutcomeSkipped
	case NoneFailed: //guard:rule/none_failed-skipped drop
		if failed { //guard:rule/none_failed false
			return UpstreamFailed, upstream
		}
		return Running, OutcomeOK
	default: // all_success
		if failed { //guard:rule/all_success false
			return UpstreamFailed, upstream
		}
		if s.Skipped > 0 { //guard:rule/all_success-skipped drop
			return Skipped, OutcomeSkipped
		}
		return Running, OutcomeOK
	}
}

// RunStatus returns the final status of a run, given the worst outcome of its
// sinks.
func RunStatus(worst Outcome) Status {
	switch worst {
	case OutcomeFailed: //guard:outcome/run-failed drop
		return Failed
	case OutcomeTimedOut: //guard:outcome/run-timed-out drop
		return TimedOut
	}
	return Succeeded
}

// MapStatus returns the final status of a mapped task, given the worst outcome
// of its instances.
func MapStatus(worst Outcome) Status { return RunStatus(worst) }
