// Package sandbox is the port through which user code runs: one task attempt at
// a time, isolated from the service and from other workspaces. It also checks
// the uploaded artifacts that contain the code.
package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"millrace/shared/run/sandbox/ticket"
)

// DefaultTimeout is the timeout of a task without timeout_secs.
const DefaultTimeout = 600 * time.Second

// InlineBytes is the largest output in a response if the request has an
// OutputURL.
const InlineBytes = 32 << 10

// MaxOutputBytes is the largest output a task may return, as JSON.
const MaxOutputBytes = 256 << 20

// Error types of a Failure, as task records show them.
const (
	TaskFailedError            = "TaskFailedError"
	TaskTimeoutError           = "TaskTimeoutError"
	ArtifactSerializationError = "ArtifactSerializationError"
)

// Link returns a presigned URL that is valid for the duration of the call.
// Signing one takes longer than a short task, and a warm interpreter needs few
// of them.
type Link func(ctx context.Context) (url string, err error)

// MaxFileBytes is the largest file that a task may save. MaxSavedFiles is the
// largest number of files of an attempt.
const (
	MaxFileBytes  = 1 << 30
	MaxSavedFiles = 1000
)

// Files makes links to files that tasks save and open. Its errors are suitable
// for the author of the task.
type Files interface {
	// Save returns a presigned PUT for a new file of the attempt, and the
	// reference by which it is opened.
	Save(ctx context.Context) (reference, url string, err error)
	// Open returns a presigned GET of a file by its reference, which may be
	// invented by the task.
	Open(ctx context.Context, reference string) (url string, err error)
}

// Artifact is the uploaded zip with a task's code.
type Artifact struct {
	Hash string // identifies the content: the same hash is the same code
	URL  Link   // presigned GET
}

// Input is the output of an upstream task: a value, or where to download it.
type Input struct {
	Value json.RawMessage
	URL   Link // presigned GET of the JSON; downloaded only if the task takes the argument
}

// Request is one attempt of one task. Its JSON is the input of every runner
// (functions/sandbox/python/runner). A driver embeds it in its own message and
// adds timeout_secs, inputs, and whatever else its runner needs: how links are
// passed is up to the driver.
type Request struct {
	Workspace   string                     `json:"-"` // org_id; code of two workspaces never shares an interpreter
	Tier        string                     `json:"-"` // execution mode, nano to xlarge; sets the memory
	RunID       string                     `json:"run_id"`
	FlowName    string                     `json:"flow_name"`
	FlowVersion string                     `json:"flow_version"`
	TaskName    string                     `json:"task_name"`
	TaskRunID   string                     `json:"task_run_id"`
	Attempt     int                        `json:"attempt"`             // 1 for the first
	MapIndex    *int                       `json:"map_index,omitempty"` // set for an instance of a map
	Item        json.RawMessage            `json:"item,omitempty"`      // the instance's element
	Artifact    Artifact                   `json:"-"`
	Entrypoint  string                     `json:"entrypoint"`             // module:function
	Inputs      map[string]Input           `json:"-"`                      // by upstream task name; with OnlyInputs by argument
	OnlyInputs  bool                       `json:"only_inputs,omitempty"`  // only ctx, item and index are passed by name besides
	Params      map[string]json.RawMessage `json:"params,omitempty"`       // the run's parameters
	Secrets     map[string]string          `json:"secrets,omitempty"`      // what ctx.secret may read
	TraceParent string                     `json:"traceparent,omitempty"`  // W3C Trace Context of the attempt, for ctx.traceparent and $TRACEPARENT; may be empty
	Timeout     time.Duration              `json:"-"`                      // 0 means DefaultTimeout
	OutputURL   Link                       `json:"-"`                      // presigned PUT for outputs over InlineBytes; nil: all outputs are inline
	Files       Files                      `json:"-"`                      // files that the task saves or opens; nil: it can do neither
	Reserved    bool                       `json:"-"`                      // the caller has a slot from Reserver, so Run takes none
	Failed      json.RawMessage            `json:"failed,omitempty"`       // list of the failed tasks of the run, for its on_failure task
	FailedCount int                        `json:"failed_count,omitempty"` // their number; Failed may have only the first of them
	Begin       func(ago time.Duration)    `json:"-"`                      // called once, with the time since the task's function began; may be nil
}

// Failure is an error of the task itself.
type Failure struct {
	Type      string `json:"type"` // TaskFailedError, TaskTimeoutError or ArtifactSerializationError
	Message   string `json:"message"`
	Exception string `json:"exception,omitempty"` // class of the exception that the task raised, e.g. ConnectionError
	Traceback string `json:"traceback,omitempty"` // of the task's own code, at most MaxTraceback bytes
}

// Result is the result of an attempt: an output, inline or uploaded to
// OutputURL, or a Failure.
type Result struct {
	Output      json.RawMessage // valid JSON; nil when Uploaded or failed
	OutputBytes int64           // size of the output, inline or uploaded
	Uploaded    bool
	Failure     *Failure
}

// LogEvent is a line that the task wrote or logged.
type LogEvent struct {
	Time    time.Time
	Level   string // debug, info, warning, error, critical
	Logger  string // stdout, stderr, task (ctx.log), traceback, or the name of a logging logger
	Message string
	Fields  json.RawMessage // a JSON object of at most MaxFields bytes, of ctx.log; nil for none
}

// Limits, in bytes, of texts that task code may have written.
const (
	MaxFailure   = 4 << 10 // a failure's message
	MaxException = 200     // an exception's class
	MaxTraceback = 4 << 10
	MaxFields    = 16 << 10
)

// ErrUnavailable means that the sandbox cannot take the attempt now, and that
// the task's code has not started. Run wraps it with the reason.
var ErrUnavailable = errors.New("the sandbox is not available")

// Reserver is a Sandbox that runs a limited number of tasks at once. A caller
// that reserves a slot before it claims a task does not count the wait as the
// task's time.
type Reserver interface {
	// Reserve waits for a slot for Requests of a workspace with Reserved set, one
	// at a time. Callers of one workspace are served in order of arrival. release
	// frees the slot; further calls do nothing. The error is ctx's cause, or that
	// of a closed Sandbox.
	Reserve(ctx context.Context, workspace string) (release func(), err error)
}

// ImportTimeout is the timeout for importing the task's module. It does not
// count as the task's own time, which begins with its function.
const ImportTimeout = 60 * time.Second

// StartReporter is a Sandbox that may call Request.Begin when the task's
// function begins. Others call it when the attempt is over, if they know the
// time by then.
type StartReporter interface {
	// TellsStart reports whether Begin is called when the function begins.
	TellsStart() bool
}

// Dispatcher is a Sandbox that starts runners which nobody waits for. A runner
// claims its attempt by the token that it was started with, gets the request in
// return, and delivers the result itself.
type Dispatcher interface {
	Sandbox
	// Dispatch has a runner started for an attempt, in its workspace and tier. It
	// returns when the infrastructure has accepted that, which may take a while to
	// follow. Two runners may be started for one call. An error does not exclude
	// that one is.
	Dispatch(ctx context.Context, tier string, attempt ticket.Attempt) error
	// Message returns the request as the runner reads it. It is a credential: it
	// contains links and secrets. Errors: ErrUnavailable, or that of a request
	// that is too large.
	Message(ctx context.Context, req Request) (json.RawMessage, error)
	// Answer reads the result that a runner of a tier delivered, and how long the
	// task's function took, 0 if it did not begin. Errors are those of Direct.Run.
	Answer(answer json.RawMessage, tier string) (result Result, took time.Duration, err error)
}

// Levels of Isolation.
const (
	IsolatedEnvironment = "environment" // a separate machine for each workspace
	IsolatedNamespaces  = "namespaces"  // processes that cannot see the service or each other
	IsolatedProcesses   = "processes"   // processes only: no boundary between workspaces
)

// Isolation describes how tasks are isolated from the service and from each
// other.
type Isolation struct {
	Level  string // one of the levels
	Detail string // for human readers
}

// IsolationReporter is a Sandbox that knows its Isolation.
type IsolationReporter interface {
	// Isolation may have to start an interpreter to find out. An error means that
	// tasks cannot run here.
	Isolation(ctx context.Context) (Isolation, error)
}

// Sandbox runs tasks: a [Direct] or a [Dispatcher].
type Sandbox interface {
	// Close kills running tasks and frees all resources.
	Close() error
}

// Direct is a Sandbox that runs tasks while its callers wait.
type Direct interface {
	Sandbox
	// Run runs one attempt and returns when it is over. Every log event is passed
	// to log before Run returns, as it occurs and one at a time; log must not
	// block for long. When ctx is done the task and all processes it started are
	// killed, and Run returns ctx's cause. Any other error means that the
	// infrastructure failed (the interpreter died, the artifact could not be
	// downloaded), never the task: that is Result.Failure.
	Run(ctx context.Context, req Request, log func(LogEvent)) (Result, error)
}
