// Package executor runs the work of one task attempt, by the task's type. An
// executor knows nothing of leases, retries or dependents: it is given an
// attempt and answers a result.
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
)

// The error types of failures, as task records show them.
const (
	TaskFailed    = "TaskFailedError"            // the task's own code failed
	TaskTimeout   = "TaskTimeoutError"           // past timeout_secs
	Serialization = "ArtifactSerializationError" // the output is not JSON
	Expression    = "ExpressionError"            // a condition, list or config could not be evaluated
	HTTPFailed    = "HttpError"                  // an http task got no acceptable answer
	SandboxFailed = "SandboxError"               // the interpreter died or could not be started
	WorkerLost    = "WorkerLostError"            // the worker died ten times
	UnknownType   = "UnknownTaskTypeError"       // nothing here runs tasks of that type
	Cancelled     = "CancelledError"             // the run was cancelled or passed its deadline
	StorageFailed = "StorageError"               // an object that the task needs is gone, or what it hands on cannot be stored
	Upstream      = "UpstreamFailedError"        // it did not run, since a task that it depends on failed
	Internal      = "InternalError"              // the service itself failed
)

// Value is an output: JSON in memory, or the key of an object that holds it.
type Value struct {
	JSON json.RawMessage
	Ref  string
	Size int64 // bytes of JSON, in memory or not
}

// Attempt is one attempt of a task, as an executor sees it. Its functions may be
// nil where a task needs none of them.
type Attempt struct {
	Org, RunID, Flow, Version, Environment, Mode string
	TaskRunID                                    string
	Task                                         *flowspec.Task
	Number                                       int // 1 for the first
	MapIndex                                     *int
	Item                                         json.RawMessage // the element, when mapped
	Resumed                                      bool            // the attempt was suspended and its time has come
	Started                                      time.Time
	Timeout                                      time.Duration // what is left until the task's or the run's end; 0 is no limit
	Artifact, CodeHash                           string        // object key of the code, and what names its content
	Params                                       map[string]json.RawMessage
	Reserved                                     bool            // the caller holds the place that Reserver gave
	OutputKey                                    string          // where a large output goes in the object store
	Trace                                        telemetry.Trace // what the attempt does belongs to this span; zero: to none

	// Scope is what expressions see; outputs of the named tasks are loaded.
	Scope func(ctx context.Context, tasks []string) (expr.Scope, error)
	// Hold takes so many bytes of the process's memory until the attempt is over,
	// in place of what it held for expressions, and waits for them. nil: as much
	// as there is.
	Hold func(ctx context.Context, bytes int64) error
	// Output is what a dependency handed on.
	Output func(ctx context.Context, task string) (Value, error)
	// Secret resolves a secret of the run's environment.
	Secret func(name string) (string, error)
	// Failed is what failed in the run; of its on_failure task alone, else nil.
	Failed func(ctx context.Context) (*Failures, error)
	// Begin is to be called by a [Preparing] executor, once: the task's own code
	// began so long ago.
	Begin func(ago time.Duration)
	// Log takes a line the task wrote; its Time may be zero for now.
	Log func(sandbox.LogEvent)

	hidden *mask.Masker // of the secrets that were resolved, set by Masked
}

// Failure is how an attempt failed.
type Failure struct {
	Type, Message string
	Exception     string // class of what the task raised, e.g. ConnectionError; may be empty
	Traceback     string // of the task's own code; may be empty
	TimedOut      bool   // the task ends TIMED_OUT, not FAILED, when no retry is left
	Final         bool   // a retry would fail the same way
}

// Result is how an attempt ended: with a failure, suspended until a time, or
// with an output.
type Result struct {
	Output  Value
	Failure *Failure
	Until   time.Time
	// Unstarted is why the attempt's own code did not begin, for a cause outside
	// of it: a store could not be reached, the sandbox was throttled. Such an
	// attempt may be given back and does not count; Failure says the same, for
	// who does not.
	Unstarted string
}

// Failed makes a Result of a failure.
func Failed(kind, format string, args ...any) Result {
	return Result{Failure: &Failure{Type: kind, Message: fmt.Sprintf(format, args...)}}
}

// Final makes a Result of a failure that no retry would mend.
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
	// Reserve waits for a place for an Attempt of the workspace org with Reserved
	// set; those of one workspace are served as they come. release gives it back;
	// calls after the first do nothing. The error is ctx's cause, or that nothing
	// can run any more.
	Reserve(ctx context.Context, org string) (release func(), err error)
}

// Executor runs attempts of one task type. When ctx ends it must stop the work
// and return soon; what it then returns is not used.
type Executor interface {
	Execute(ctx context.Context, a *Attempt) Result
	// Instant reports that attempts take no time worth a heartbeat.
	Instant() bool
}

// Preparing is an Executor whose attempts take time before the task's own code
// begins, which does not count as the task's.
type Preparing interface {
	// Preparation is the most that it takes, and whether Attempt.Begin is called
	// at its end. Where it is not, the executor alone keeps the task's time-out.
	Preparation() (most time.Duration, told bool)
}

// Failures is what failed in a run.
type Failures struct {
	List  json.RawMessage // {task_name, map_index, attempt, error_type, error_message}, the first of them
	Count int             // of all
}

// Set is the executors by task type.
type Set map[string]Executor
