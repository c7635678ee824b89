// Package fn describes the service's functions: what triggers one, what it may
// touch, its size, and how it is built from the platform's ports. The catalog
// lists them; the bootstrap, the embedded server and the deployment derive
// everything else from these specs.
package fn

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"millrace/shared/account/quota"
	"millrace/shared/kit/due"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/bus"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/signal"
	"millrace/shared/platform/table"
	"millrace/shared/platform/telemetry"
	"millrace/shared/platform/vault"
	"millrace/shared/run/runlog"
	"millrace/shared/run/sandbox"
	"millrace/shared/web/httpapi"
)

// Deps is the platform a function is built on. A deployed function gets only
// what its Spec needs; the rest is nil.
type Deps struct {
	Table   table.Table
	Queues  queue.Queues
	Blob    blob.Store
	Bus     bus.Bus
	Sandbox sandbox.Sandbox
	Vault   vault.Vault
	Clock   clock.Clock
	Log     *slog.Logger
	Metrics *telemetry.Metrics // nil: nothing is measured
	Hub     *signal.Hub        // wakes waiters within this process
	Logs    *runlog.Store      // logs of runs, shared within this process
	Quota   *quota.Quota       // nil: nothing is limited
	Waiting Waiting            // nil: what runs tasks is not in this process
	Config  Config
}

// Waiting tells why a ready task of a workspace has to wait for its turn now, by
// its execution mode and its type ("" of a run that has not begun), as a sentence;
// empty if nothing is in its way. It costs no request.
type Waiting func(org, mode, kind string) string

// Config is what an operator sets.
type Config struct {
	Version       string   // of the service, reported by health
	Region        string   // of the tenant's deployment
	URL           string   // where callers reach the deployment, without a slash at its end; empty: at the root of the host they name. Known to the function of unmatched requests
	AllowLoopback bool     // outbound calls made for users may reach this machine
	AllowRanges   []string // CIDR ranges that such calls may reach besides public ones
	Boot          string   // names this process in the leases it takes
	Sole          bool     // no other process works on these runs: leases of earlier ones are void
	Resident      bool     // the process lives on between events
	Operator      string   // bearer credential of who runs the service; empty: none is accepted
	AttemptKey    []byte   // signs the tokens of task attempts; empty: none is accepted
}

// Handler takes one event as JSON (an AWS event shape, or the function's own)
// and answers what its caller gets: a value to be marshalled.
type Handler func(ctx context.Context, payload json.RawMessage) (any, error)

// MessageHandler takes a batch of queue messages, in the shape Lambda gives them.
type MessageHandler func(ctx context.Context, batch events.SQSEvent) (events.SQSEventResponse, error)

// Trigger is what makes a function run.
type Trigger struct {
	// HTTP: the operations it registers are routed to it.
	HTTP bool
	// Unmatched: requests that match no operation come to it, too, and its API
	// knows the whole one. Goes with HTTP; one function alone can have them.
	Unmatched bool
	// Queues feed it SQS events.
	Queues []QueueTrigger
	// DetailTypes are the bus events it gets, through a queue of its own.
	DetailTypes []string
	// Objects are the events of the artifact bucket that it gets, through their
	// queue: messages for events.ReadObjects. One function alone can have them.
	Objects ObjectTrigger
	// Due are the kinds of timed work that it takes: messages for Deps.Due, through
	// a queue for each kind. A kind is taken by one function.
	Due []due.Kind
	// EveryMinute: a rule invokes it with a scheduler tick.
	EveryMinute bool
}

// QueueTrigger is an event source mapping.
type QueueTrigger struct {
	Queue string
	Batch int // messages per invocation, 1 to 10
}

// Needs is what a function may touch: the source of its role.
type Needs struct {
	Table Access // the table and its indexes
	// Identity: it makes and ends workspaces, memberships and API keys. Other
	// HTTP functions read them, and note when a key was used; the rest of the
	// functions see none of it.
	Identity bool
	Blob     Access   // the artifact bucket
	Folders  []string // of the bucket, in each workspace, that it writes to; goes with Blob: Writes
	Send     []string // queues it sends to
	Measure  []string // queues whose counts it reads
	Publish  bool     // the event bus
	Sandbox  bool     // the sandbox functions
	Vault    bool     // the key that seals secret values
	// AttemptKey: it checks the tokens of task attempts.
	AttemptKey bool
}

// WriteFolders are the folders of the bucket, in each workspace, that a function
// writes to: those that it names, and those that what it stands on needs for
// the traces of failed requests and the bodies of large messages.
func (s Spec) WriteFolders() []string {
	if s.Needs.Blob != Writes {
		return nil
	}
	folders := slices.Clone(s.Needs.Folders)
	if s.Trigger.HTTP {
		folders = append(folders, httpapi.TraceFolder)
	}
	if len(s.Needs.Send) > 0 || s.Messages != nil {
		folders = append(folders, queue.BodyFolder)
	}
	return folders
}

// Authenticates reports whether a function tells callers apart, for which it needs
// the table: one without it has public operations alone, and no lists.
func (s Spec) Authenticates() bool { return s.Trigger.HTTP && s.Needs.Table != NoAccess }

// Access is how a function may touch a store.
type Access int

// The accesses; each includes the one before.
const (
	NoAccess Access = iota
	Reads
	Writes
)

// Spec is one function.
type Spec struct {
	Name     string // folder and deployment name, e.g. "runs"
	Doc      string // one sentence
	Trigger  Trigger
	Needs    Needs
	MemoryMB int
	Timeout  time.Duration
	// Routes registers the operations of an HTTP function.
	Routes func(api *httpapi.API, d Deps)
	// Messages builds a function fed by queues; it answers which messages are
	// to be delivered again.
	Messages func(d Deps) MessageHandler
	// Handle builds any other event function.
	Handle func(d Deps) Handler
}
