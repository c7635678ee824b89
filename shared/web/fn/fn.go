// Package fn describes the service's functions: what triggers one, what it may
// access, its size, and how it is built from the platform's ports. The catalog
// lists the functions; the bootstrap, the embedded server and the deployment
// derive everything else from these specs.
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
	"millrace/shared/platform/keyring"
	"millrace/shared/platform/mail"
	"millrace/shared/platform/notify"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/signature"
	"millrace/shared/platform/table"
	"millrace/shared/platform/telemetry"
	"millrace/shared/platform/vault"
	"millrace/shared/run/runlog"
	"millrace/shared/run/sandbox"
	"millrace/shared/run/tier"
	"millrace/shared/web/httpapi"
)

// Deps are the dependencies of a function. A deployed function gets only those
// that its Spec needs; the others are nil.
type Deps struct {
	Table   table.Table
	Queues  queue.Queues
	Blob    blob.Store
	Bus     bus.Bus
	Sandbox sandbox.Sandbox
	Vault   vault.Vault
	Signer  signature.Signer
	Locked  blob.Store  // of copies of audit digests, which it neither replaces nor deletes; nil: none are kept
	Mail    mail.Sender // nil: no mail server is set
	Clock   clock.Clock
	Log     *slog.Logger
	Metrics *telemetry.Metrics // nil: nothing is measured
	Spans   *telemetry.Spans   // nil: none are exported
	Broker  *notify.Broker     // wakes waiting goroutines of this process
	Logs    *runlog.Store      // logs of runs, shared by the functions of this process
	Quota   *quota.Quota       // nil: nothing is limited
	Waiting Waiting            // nil: tasks do not run in this process
	Config  Config
}

// Waiting returns, as a sentence, why a ready task of a workspace has to wait
// now, given its execution mode and its type ("" for a run that has not begun),
// or "" if it does not have to. It makes no request.
type Waiting func(org, mode, kind string) string

// Config is set by an operator.
type Config struct {
	Version       string        // of the service, reported by health
	Region        string        // of the tenant's deployment
	URL           string        // base URL for callers, without a trailing slash; empty: the root of the requested host. Only the function of unmatched requests knows it
	LinkURL       string        // base URL of links in messages, without a trailing slash; empty: unknown. Only functions that need Links know it
	AllowLoopback bool          // outbound calls made for users may reach this machine
	AllowRanges   []string      // CIDR ranges that such calls may reach besides public ones
	MaxTaskSecs   int           // the limit of timeout_secs of a task that occupies a worker while it runs; 0: tasktype.HeldSecs
	Tiers         tier.Set      // runtime tiers that the deployment has
	Bucket        string        // of artifacts; no sensor watches it
	OutboundHelp  string        // tells authors of flows how the operator can allow a refused address; empty: it cannot be allowed
	ProcessID     string        // identifies this process in the leases it takes
	Exclusive     bool          // no other process works on these runs, so leases of earlier ones are void
	LongLived     bool          // the process outlives an event
	Operator      string        // bearer credential of the operator; empty: none is accepted
	AttemptKeys   *keyring.Ring // sign the tokens of task attempts; nil: none is accepted
	// APIKey returns the API key that the operator has stored; nil unless the
	// function needs it.
	APIKey func(ctx context.Context) (string, error)
	SignIn SignIn // of browsers. Only the function of unmatched requests knows it
}

// SignIn is how browsers sign in at the identity provider: OpenID Connect,
// authorization code with PKCE, as a public client.
type SignIn struct {
	Issuer string // empty: browsers cannot sign in
	Client string // client id
	// Callback is the redirect URI. Empty: /cli-callback below the URL of Config.
	Callback string
	// Authorize and Token are the provider's endpoints. Empty: those of its
	// discovery document.
	Authorize, Token string
}

// Handler handles one event as JSON (an AWS event shape, or the function's own)
// and returns the value to marshal for its caller.
type Handler func(ctx context.Context, payload json.RawMessage) (any, error)

// MessageHandler handles a batch of queue messages, as Lambda passes them.
type MessageHandler func(ctx context.Context, batch events.SQSEvent) (events.SQSEventResponse, error)

// Trigger defines what invokes a function.
type Trigger struct {
	// HTTP routes the operations that the function registers to it.
	HTTP bool
	// Unmatched routes requests that match no operation to it, too, and its API
	// describes the whole service. It requires HTTP; only one function can have
	// it.
	Unmatched bool
	// OwnURL routes its operations by a URL of the function instead of the API and
	// its firewall: those that users do not call. They must be public, with a
	// credential of their own, and may not stream. It requires HTTP.
	OwnURL bool
	// Queues invoke it with SQS events.
	Queues []QueueTrigger
	// DetailTypes are the bus events that it receives through its own queue.
	DetailTypes []string
	// DetailWhere limits these events to those in whose detail each of the named
	// fields is one of the texts. nil: all of them.
	DetailWhere map[string][]string
	// Objects are the events of the artifact bucket, or of users' buckets, that it
	// receives through their queue: messages for events.ReadObjects. Only one function can have them.
	Objects ObjectTrigger
	// Due are the kinds of timed work that it handles: messages for Deps.Due,
	// through a queue for each kind. A kind has one function.
	Due []due.Kind
	// EveryMinute makes a rule invoke it with a scheduler tick.
	EveryMinute bool
	// Probe makes a rule invoke it every minute with an empty object, to try the
	// service from outside.
	Probe bool
}

// QueueTrigger is an event source mapping.
type QueueTrigger struct {
	Queue string
	Batch int // messages per invocation, 1 to 10
}

// Needs defines what a function may access. Its role is derived from it.
type Needs struct {
	Table Access // the table and its indexes
	Check bool   // whether the table answers, without reading from it
	// Identity permits creating and deleting workspaces, memberships and API keys.
	// Other HTTP functions read them and record the use of keys; all other
	// functions have no access to them.
	Identity bool
	Blob     Access   // the artifact bucket
	Folders  []string // of the bucket, in each workspace, that it writes to; requires Blob: Writes
	Send     []string // queues that it sends to
	Measure  []string // queues whose message counts it reads
	Publish  bool     // the event bus
	Sandbox  bool     // the sandbox functions
	// Description is for describing the sandbox without running tasks: Deps.Sandbox
	// reports its isolation and its runtime. It needs no permission.
	Description bool
	Vault       bool   // the encryption key of secret values
	Signer      Access // the signing key: Reads verifies with its public part, Writes signs
	Locked      Access // the store of copies of audit digests, if the operator has one
	Mail        bool   // sending mail, as the sender that the operator has configured, if any
	Links       bool   // the service's URL, for links in messages
	// AttemptKey is needed to check the tokens of task attempts.
	AttemptKey bool
	// APIKey is an API key that the operator has stored for the function.
	APIKey bool
}

// WriteFolders returns the folders of the bucket, in each workspace, that a
// function writes to: those that it names, and those for the traces of failed
// requests and the bodies of large messages. A function that serves HTTP stores
// traces even if it has no other access to the bucket.
func (s Spec) WriteFolders() []string {
	folders := slices.Clone(s.Needs.Folders)
	if s.Trigger.HTTP && !slices.Contains(folders, httpapi.TraceFolder) {
		folders = append(folders, httpapi.TraceFolder)
	}
	if s.Needs.Blob == Writes && (len(s.Needs.Send) > 0 || s.Messages != nil) {
		folders = append(folders, queue.BodyFolder)
	}
	return folders
}

// Authenticates reports whether a function authenticates callers, which
// requires the table. Without it, and at a URL of its own, a function has only
// public operations, and no lists.
func (s Spec) Authenticates() bool {
	return s.Trigger.HTTP && !s.Trigger.OwnURL && s.Needs.Table != NoAccess
}

// Access is how a function may access a store.
type Access int

// The accesses; each includes the previous one.
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
	// Messages builds a function triggered by queues. It returns the messages to
	// be delivered again.
	Messages func(d Deps) MessageHandler
	// Handle builds any other event function.
	Handle func(d Deps) Handler
}
