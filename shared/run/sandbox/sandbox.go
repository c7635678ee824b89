// Package sandbox is the port through which user code runs: one task attempt at
// a time, shut off from the service and from other workspaces. It also guards
// the door by which that code comes in: the uploaded artifact.
package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// DefaultTimeout is the time of a task that sets no timeout_secs.
const DefaultTimeout = 600 * time.Second

// InlineBytes is the largest output that stays in the answer when the request
// names an OutputURL.
const InlineBytes = 32 << 10

// MaxOutputBytes is the largest output a task may return, as JSON.
const MaxOutputBytes = 256 << 20

// The error types a Failure carries, as task records show them.
const (
	TaskFailedError            = "TaskFailedError"
	TaskTimeoutError           = "TaskTimeoutError"
	ArtifactSerializationError = "ArtifactSerializationError"
)

// Link makes a presigned URL that is good for the length of the call. Signing one
// takes longer than a short task, and a warm interpreter needs few of them.
type Link func(ctx context.Context) (url string, err error)

// MaxFileBytes is the largest file that a task may save, MaxSavedFiles how many an
// attempt may.
const (
	MaxFileBytes  = 1 << 30
	MaxSavedFiles = 1000
)

// Files makes links to files that tasks hand on. Its errors are fit for the
// author of the task.
type Files interface {
	// Save makes a presigned PUT for a further file of the attempt, and the
	// reference by which it is opened.
	Save(ctx context.Context) (reference, url string, err error)
	// Open makes a presigned GET of a file by its reference, which the task may
	// have made up.
	Open(ctx context.Context, reference string) (url string, err error)
}

// Artifact is the uploaded zip a task's code comes from.
type Artifact struct {
	Hash string // names the content: the same hash is the same code
	URL  Link   // presigned GET
}

// Input is the output of an upstream task: a value, or where to fetch it.
type Input struct {
	Value json.RawMessage
	URL   Link // presigned GET of the JSON; fetched only if the task takes the argument
}

// Request is one attempt of one task. Its JSON is what every runner takes
// (functions/sandbox/python/runner). A driver embeds it in its own message and
// adds timeout_secs, inputs, and what else its runner needs: how links travel is
// the driver's matter.
type Request struct {
	Workspace   string                     `json:"-"` // org_id: code of two workspaces never shares an interpreter
	Tier        string                     `json:"-"` // execution mode: nano … xlarge; sets the memory
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
	OnlyInputs  bool                       `json:"only_inputs,omitempty"`  // nothing else but ctx, item and index is filled in by name
	Params      map[string]json.RawMessage `json:"params,omitempty"`       // the run's parameters
	Secrets     map[string]string          `json:"secrets,omitempty"`      // what ctx.secret may read
	TraceParent string                     `json:"traceparent,omitempty"`  // W3C Trace Context of the attempt: ctx.traceparent and $TRACEPARENT; may be empty
	Timeout     time.Duration              `json:"-"`                      // 0 means DefaultTimeout
	OutputURL   Link                       `json:"-"`                      // presigned PUT for outputs over InlineBytes; nil: they come inline
	Files       Files                      `json:"-"`                      // of files that the task saves or opens; nil: it can do neither
	Reserved    bool                       `json:"-"`                      // the caller holds a place of Slots: Run takes none
	Failed      json.RawMessage            `json:"failed,omitempty"`       // a list of what failed in the run, for its on_failure task
	FailedCount int                        `json:"failed_count,omitempty"` // how many there are; Failed may hold the first alone
	Begin       func(ago time.Duration)    `json:"-"`                      // called once: the task's function began so long ago; nil: nobody wants to know
}

// Failure is a fault of the task itself.
type Failure struct {
	Type      string `json:"type"` // TaskFailedError, TaskTimeoutError or ArtifactSerializationError
	Message   string `json:"message"`
	Exception string `json:"exception,omitempty"` // class of what the task raised, e.g. ConnectionError
	Traceback string `json:"traceback,omitempty"` // of the task's own code, at most MaxTraceback bytes
}

// Result is how the attempt ended: with an output, inline or uploaded to
// OutputURL, or with a Failure.
type Result struct {
	Output      json.RawMessage // valid JSON; nil when Uploaded or failed
	OutputBytes int64           // size of the output, wherever it is
	Uploaded    bool
	Failure     *Failure
}

// LogEvent is a line the task wrote or logged.
type LogEvent struct {
	Time    time.Time
	Level   string // debug, info, warning, error, critical
	Logger  string // stdout, stderr, task (ctx.log), traceback, or the name of a logging logger
	Message string
	Fields  json.RawMessage // a JSON object of at most MaxFields bytes, of ctx.log; nil for none
}

// The most bytes of texts that task code may have written itself.
const (
	MaxFailure   = 4 << 10 // of a failure's message
	MaxException = 200     // of an exception's class
	MaxTraceback = 4 << 10
	MaxFields    = 16 << 10
)

// ErrUnavailable: the sandbox could not take the attempt for the time being, and
// nothing of the task's code has begun. Run wraps it with the reason.
var ErrUnavailable = errors.New("the sandbox is not available")

// Slots is a Sandbox that runs a limited number of tasks at once. Who takes a
// place before it claims a task does not let the wait count as the task's time.
type Slots interface {
	// Reserve waits for a place for Requests of a workspace with Reserved set, one
	// at a time; those of one workspace are served as they come. release gives the
	// place back; calls after the first do nothing. The error is ctx's cause, or
	// that of a closed Sandbox.
	Reserve(ctx context.Context, workspace string) (release func(), err error)
}

// ImportTimeout is how long importing the task's module may take. It is no part
// of the task's own time, which begins with its function.
const ImportTimeout = 60 * time.Second

// Starting is a Sandbox that calls Request.Begin when the task's function begins.
// Others call it when the attempt is over, if they know by then.
type Starting interface {
	// TellsStart reports that it does.
	TellsStart() bool
}

// The levels of Isolation.
const (
	IsolatedEnvironment = "environment" // a machine of its own for each workspace
	IsolatedNamespaces  = "namespaces"  // processes that see nothing of the service or of each other
	IsolatedProcesses   = "processes"   // processes only: no boundary between workspaces
)

// Isolation is how tasks are kept apart from the service and from each other.
type Isolation struct {
	Level  string // one of the levels
	Detail string // for people
}

// Isolating is a Sandbox that tells how it isolates tasks.
type Isolating interface {
	// Isolation may have to start an interpreter to find out. Its error means
	// that tasks cannot run here.
	Isolation(ctx context.Context) (Isolation, error)
}

// Sandbox runs tasks.
type Sandbox interface {
	// Run runs one attempt and returns when it is over. Every log event is
	// handed to log before Run returns, live and one at a time; log must not
	// block for long. A done ctx kills the task and everything it started, and
	// Run returns ctx's cause. Any other error means that the infrastructure
	// failed (the interpreter died, the artifact could not be fetched), never
	// that the task did: that is Result.Failure.
	Run(ctx context.Context, req Request, log func(LogEvent)) (Result, error)
	// Close kills what runs and frees everything.
	Close() error
}
