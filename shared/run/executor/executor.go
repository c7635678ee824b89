// Package executor runs the work of one task attempt, by the task's type. An
// executor is given an attempt and returns a result. It is not concerned with
// leases, retries and dependents.
package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"millrace/shared/kit/mask"
	"millrace/shared/platform/telemetry"
	"millrace/shared/run/expr"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/sandbox"
	"millrace/shared/run/sandbox/ticket"
)

// Error types of failures, as task records show them.
const (
	TaskFailed    = "TaskFailedError"            // the task's own code failed
	TaskTimeout   = "TaskTimeoutError"           // the task exceeded timeout_secs
	Serialization = "ArtifactSerializationError" // the output is not JSON
	Expression    = "ExpressionError"            // a condition, list or config could not be evaluated
	HTTPFailed    = "HttpError"                  // an http task got no acceptable response
	SandboxFailed = "SandboxError"               // the interpreter died or could not be started
	WorkerLost    = "WorkerLostError"            // the worker died ten times
	UnknownType   = "UnknownTaskTypeError"       // no executor for the task's type
	Cancelled     = "CancelledError"             // the run was cancelled or exceeded its deadline
	StorageFailed = "StorageError"               // an object that the task needs is missing, or its output cannot be stored
	Upstream      = "UpstreamFailedError"        // not run, because a dependency failed
	Internal      = "InternalError"              // the service itself failed
)

// Value is an output: JSON in memory, or the key of the object that contains
// it.
type Value struct {
	JSON json.RawMessage
	Ref  string
	Size int64 // bytes of JSON, in memory or not
}

// Attempt is one attempt of a task, as an executor sees it. Functions that the
// task does not need may be nil.
type Attempt struct {
	Org, RunID, Flow, Version, Environment, Mode string
	TaskRunID                                    string
	Task                                         *flowspec.Task
	Number                                       int // 1 for the first
	MapIndex                                     *int
	Item                                         json.RawMessage // the element, when mapped
	Resumed                                      bool            // the attempt was suspended and its time to resume has come
	Started                                      time.Time
	Timeout                                      time.Duration // time left until the task's or the run's deadline; 0: no limit
	Artifact, CodeHash                           string        // object key of the code, and the identifier of its content
	Params                                       map[string]json.RawMessage
	Reserved                                     bool            // the caller has reserved a slot by Reserver
	OutputKey                                    string          // object key for a large output
	Trace                                        telemetry.Trace // the attempt's span; zero if it has none

	// Scope returns what expressions see, with the outputs of the named tasks.
	Scope func(ctx context.Context, tasks []string) (expr.Scope, error)
	// Hold reserves memory of the process until the end of the attempt, replacing
	// the reservation for expressions, and waits until there is enough. nil:
	// memory is not limited.
	Hold func(ctx context.Context, bytes int64) error
	// Output returns the output of a dependency.
	Output func(ctx context.Context, task string) (Value, error)
	// Secret resolves a secret of the run's environment.
	Secret func(name string) (string, error)
	// Failed returns the failed tasks of the run. It is nil except for the
	// on_failure task.
	Failed func(ctx context.Context) (*Failures, error)
	// Begin is called by a [Preparer] executor, once, with the time since the
	// task's own code began.
	Begin func(ago time.Duration)
	// Log takes a line that the task wrote. A zero Time means now.
	Log func(sandbox.LogEvent)

	hidden *mask.Masker // masks the secrets resolved so far; set by Masked
}

// Failure is the failure of an attempt.
type Failure struct {
	Type, Message string
	Exception     string // class of the exception that the task raised, e.g. ConnectionError; may be empty
	Traceback     string // of the task's own code; may be empty
	TimedOut      bool   // the task ends TIMED_OUT, not FAILED, if no retry is left
	Final         bool   // a retry would fail the same way
}

// Result is the result of an attempt: a failure, a suspension until a time, or
// an output.
type Result struct {
	Output  Value
	Failure *Failure
	Until   time.Time
	// Unstarted is set if the attempt's own code did not begin for an external
	// reason: a store could not be reached, or the sandbox was throttled. Such an
	// attempt may be released and does not count. Failure has the same reason, for
	// callers that do not release attempts.
	Unstarted string
}

// Failed returns the Result of a failure.
func Failed(kind, format string, args ...any) Result {
	return Result{Failure: &Failure{Type: kind, Message: fmt.Sprintf(format, args...)}}
}

// Final returns the Result of a failure that no retry would mend.
func Final(kind, format string, args ...any) Result {
	r := Failed(kind, format, args...)
	r.Failure.Final = true
	return r
}

// TimedOut makes a Result of a task that ran past its timeout_secs, in the words of
// the sandbox's runner.
func TimedOut(task *flowspec.Task) Result {
	r := Failed(TaskTimeout, "the task ran past its timeout_secs (%d)", task.TimeoutSecs)
	r.Failure.TimedOut = true
	return r
}

// NotStarted makes a Result of what kept the attempt's code from beginning.
func NotStarted(err error) Result {
	r := Failed(SandboxFailed, "%v", err)
	r.Unstarted = r.Failure.Message
	return r
}

// Reserver is an Executor that runs a limited number of attempts at once.
type Reserver interface {
	// Reserve waits for a slot for an Attempt of the workspace org with Reserved
	// set. Callers of one workspace are served in order of arrival. release frees
	// the slot; further calls do nothing. The error is ctx's cause, or that of a
	// closed sandbox.
	Reserve(ctx context.Context, org string) (release func(), err error)
}

// Executor runs attempts of one task type. When ctx ends it must stop the work
// and return soon; its result is then ignored.
type Executor interface {
	Execute(ctx context.Context, a *Attempt) Result
	// Instant reports whether attempts are too short to need a heartbeat.
	Instant() bool
}

// Dispatcher is an Executor that may hand attempts off to runners elsewhere: the
// worker does not wait for them. A runner claims its attempt when it starts, and
// delivers the answer when it ends.
type Dispatcher interface {
	// Dispatches reports whether attempts are handed off. If they are, Execute is
	// not called.
	Dispatches() bool
	// Serves reports whether there are runners for an execution mode. If not,
	// Execute returns what ends the attempt.
	Serves(mode string) bool
	// Dispatch has a runner started for an attempt in an execution mode. After an
	// error none or one may start.
	Dispatch(ctx context.Context, mode string, attempt ticket.Attempt) error
	// Request returns the message for the runner that has claimed an attempt, or
	// nil and what ends the attempt instead.
	Request(ctx context.Context, a *Attempt) (json.RawMessage, Result)
	// Result returns the result of a runner's answer, and how long the task's own
	// code took, 0 if that is not known. An error means that it cannot be
	// determined now.
	Result(ctx context.Context, a *Attempt, answer json.RawMessage) (Result, time.Duration, error)
}

// Preparer is an Executor whose attempts take time before the task's own code
// begins. That time does not count as the task's.
type Preparer interface {
	// Preparation returns the longest time it takes, and whether Attempt.Begin is
	// called at its end. If it is not called, only the executor enforces the
	// task's timeout.
	Preparation() (most time.Duration, told bool)
}

// Failures are the failed tasks of a run.
type Failures struct {
	List  json.RawMessage // the first of them: {task_name, map_index, attempt, error_type, error_message}
	Count int             // the number of all
}

// Set maps task types to their executors.
type Set map[string]Executor
