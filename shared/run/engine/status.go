// Package engine is the run state machine: statuses and their transitions, the
// plan of a run with its joins, trigger rules, outcomes, and what a retry from
// failed reuses. It is pure: no clock, no I/O, no AWS.
package engine

import "slices"

// Status is the status of a task attempt, or of a run.
type Status string

// The statuses of tasks; a run uses those that RunTransitions lists.
const (
	Pending               Status = "PENDING"                // waits for the tasks that it depends on
	Queued                Status = "QUEUED"                 // waits for a worker; a run: accepted, nothing has started
	Running               Status = "RUNNING"                // an attempt runs, or waits without a worker
	Retrying              Status = "RETRYING"               // an attempt failed, the next one starts after its delay
	AwaitingApproval      Status = "AWAITING_APPROVAL"      // is kept for approvals, no task has it yet
	Succeeded             Status = "SUCCEEDED"              // done
	Reused                Status = "REUSED"                 // done by the run that this one retries, whose output it has
	Skipped               Status = "SKIPPED"                // not run: its condition, its trigger rule, or what it depends on
	Failed                Status = "FAILED"                 // its last attempt failed; a run: a task at the end of the graph failed
	TimedOut              Status = "TIMED_OUT"              // its last attempt, or the run, took longer than timeout_secs
	UpstreamFailed        Status = "UPSTREAM_FAILED"        // not run, since a task that it depends on failed
	Cancelled             Status = "CANCELLED"              // ended because the run was cancelled, or had ended
	CancellationRequested Status = "CANCELLATION_REQUESTED" // a run whose tasks are being stopped
)

// RunTransitions are the transitions a run may make; anything else is an error.
// The empty status is a run that does not exist yet.
var RunTransitions = map[Status][]Status{
	"":                    {Queued},
	Queued:                {Running, Cancelled},
	Running:               {Succeeded, Failed, TimedOut, CancellationRequested},
	CancellationRequested: {Cancelled},
}

// Step is what turns the status of a task's item into another.
type Step int

// The steps.
const (
	Claim    Step = iota // a worker takes the lease of an attempt
	Complete             // the lease's owner ends the attempt, suspends it or gives it back
	Decide               // what the task depends on decides it without an attempt
	Collect              // the last of its instances ends a map
	Stop                 // the run was stopped, and no lease lives
)

// transition is a change of a task's status that a step may make.
type transition struct {
	step     Step
	from, to Status
}

// taskSteps are the transitions a task's item may make; anything else is an
// error. An item is made lazily, so the empty status covers PENDING and QUEUED;
// an item that is QUEUED was given back. RUNNING to RUNNING is a new lease
// after a lost one, or of a suspended attempt.
var taskSteps = []transition{
	{Claim, "", Running}, {Claim, Queued, Running}, {Claim, Retrying, Running}, {Claim, Running, Running},
	{Claim, Running, Queued}, // the third lost lease, and those after it
	{Claim, Running, Failed}, // the tenth
	{Complete, Running, Running}, {Complete, Running, Queued}, {Complete, Running, Retrying},
	{Complete, Running, Succeeded}, {Complete, Running, Skipped}, {Complete, Running, Failed},
	{Complete, Running, TimedOut}, {Complete, Running, Cancelled},
	{Decide, "", Reused}, {Decide, "", Skipped}, {Decide, "", UpstreamFailed},
	{Collect, Running, Succeeded}, {Collect, Running, Failed}, {Collect, Running, TimedOut},
	{Stop, Running, Cancelled},
}

// TaskTransitions are the statuses that each status of a task's item may turn into.
var TaskTransitions = func() map[Status][]Status {
	out := map[Status][]Status{}
	for _, t := range taskSteps {
		if !slices.Contains(out[t.from], t.to) {
			out[t.from] = append(out[t.from], t.to)
		}
	}
	return out
}()

// From lists the statuses that a step may turn into to: the condition of the
// write that makes it.
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

// RunEnded reports whether a run with this status never changes again.
func (s Status) RunEnded() bool {
	switch s {
	case Succeeded, Failed, TimedOut, Cancelled:
		return true
	}
	return false
}

// Before lists the statuses from which a run may turn into to: the condition of
// the write that does it.
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

// Outcome is what a finished node means to its dependents, from best to worst.
type Outcome int

// The outcomes. Failed stands for FAILED and UPSTREAM_FAILED; an
// UPSTREAM_FAILED whose only cause is a time-out carries OutcomeTimedOut, so
// that the run ends TIMED_OUT and not FAILED.
const (
	OutcomeOK Outcome = iota
	OutcomeSkipped
	OutcomeTimedOut
	OutcomeFailed
)

// Outcome returns what a terminal status means to dependents.
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

// Count returns how many dependencies are finished.
func (s Sets) Count() int { return s.OK + s.Skipped + s.TimedOut + s.Failed }

// Add counts one more.
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

// One makes Sets of a single outcome.
func One(o Outcome) Sets {
	var s Sets
	s.Add(o)
	return s
}

// Rule is a trigger rule.
type Rule string

// The trigger rules.
const (
	AllSuccess Rule = "all_success"
	AllDone    Rule = "all_done"
	OneFailed  Rule = "one_failed"
	NoneFailed Rule = "none_failed"
)

// Decide applies a trigger rule to the outcomes of a node's dependencies, all
// finished. It returns Running if the node is to run, else Skipped or
// UpstreamFailed, with the outcome that the node then carries.
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

// RunStatus is the status a run ends with, given the worst outcome of its sinks.
func RunStatus(worst Outcome) Status {
	switch worst {
	case OutcomeFailed: //guard:outcome/run-failed drop
		return Failed
	case OutcomeTimedOut: //guard:outcome/run-timed-out drop
		return TimedOut
	}
	return Succeeded
}

// MapStatus is the status of a mapped task, given the worst of its instances.
func MapStatus(worst Outcome) Status { return RunStatus(worst) }
