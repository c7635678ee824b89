package sandboxlogs

import (
	"encoding/json"
	"sync"

	"millrace/shared/account/tenant"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// maxBody is the largest batch in bytes. The runner sends batches of a quarter
// of it, but a single log line may be long.
const maxBody = 1 << 20

// maxStart is the largest request to begin an attempt in bytes.
const maxStart = 4 << 10

// Event is a line written by a task.
type Event struct {
	Timestamp string                     `json:"timestamp" format:"date-time"`
	Level     string                     `json:"level" enum:"debug,info,warning,error,critical"`
	Logger    string                     `json:"logger" maxLength:"200"`
	Message   string                     `json:"message"`
	Fields    map[string]json.RawMessage `json:"fields,omitempty" doc:"What ctx.log was given besides its message"`
	Sequence  int64                      `json:"sequence,omitempty" minimum:"1" doc:"Rises within the attempt"`
}

// Batch is the runner's request. Without events it only asks for the fence, and
// for the link of a file if it names one.
type Batch struct {
	Events   []Event `json:"events" maxItems:"1000"`
	SaveFile *int    `json:"save_file,omitempty" doc:"Number of a file that the attempt saves, from 0: the same number is the same file, so the request may be repeated"`
	OpenFile string  `json:"open_file,omitempty" maxLength:"200" doc:"Reference of a file that the attempt opens"`
	Runner   string  `json:"runner,omitempty" maxLength:"64" doc:"The runner's own id, the same in all its requests"`
	Renew    bool    `json:"renew,omitempty" doc:"Renew the attempt's lease, which a runner does at least every 10 s"`
}

// Start is the request of a runner to begin its attempt.
type Start struct {
	Runner string `json:"runner" minLength:"1" maxLength:"64" doc:"The runner's own id"`
}

// Started is the response to a Start.
type Started struct {
	Request json.RawMessage `json:"request" doc:"What to run, with links and secrets"`
}

// Completion is the result of an attempt, with the last lines of its log.
type Completion struct {
	Runner string          `json:"runner" minLength:"1" maxLength:"64" doc:"The runner's own id"`
	Events []Event         `json:"events,omitempty" maxItems:"1000"`
	Answer json.RawMessage `json:"answer" doc:"How the task ended"`
	// RemainingSecs is how long the runner's function still lives.
	RemainingSecs float64 `json:"remaining_secs,omitempty" minimum:"0" maximum:"900" doc:"How long the runner can go on; without it it gets no other attempt"`
}

// Completed is the response to a Completion.
type Completed struct {
	Next *Next `json:"next,omitempty" doc:"An attempt that the runner has begun thereby"`
}

// Next is an attempt that a runner has begun by completing another one.
type Next struct {
	Token   string          `json:"token" doc:"For the further requests of the attempt"`
	Request json.RawMessage `json:"request" doc:"What to run, with links and secrets"`
}

// Fence is the response to a Batch.
type Fence struct {
	Cancelled bool   `json:"cancelled" doc:"Whether the attempt must stop"`
	Reference string `json:"reference,omitempty" doc:"Of the file that is saved or opened"`
	URL       string `json:"url,omitempty" doc:"Where the runner puts or gets the file"`
}

type postIn struct {
	Authorization string `header:"Authorization"`
	Body          Batch
}

type startIn struct {
	Authorization string `header:"Authorization"`
	Body          Start
}

type completeIn struct {
	Authorization string `header:"Authorization"`
	Body          Completion
}

func routes(api *httpapi.API, d fn.Deps) {
	s := &service{table: d.Table, blob: d.Blob, clock: d.Clock, logs: d.Logs, limits: newLimits(), keys: d.Config.AttemptKeys, tasks: sync.OnceValue(d.Tasks)}
	g := httpapi.Group{API: api, Function: name, Writes: tenant.Public}
	httpapi.Post(g, Path, s.post, "Store a batch of a task's log, ask whether the task must stop, or for the link of a file",
		httpapi.ID("attempt-logs"), httpapi.Hidden, httpapi.Quiet, httpapi.Credential(s.known), httpapi.BodyLimit(maxBody),
		httpapi.Doc("Only for the sandbox: the bearer token is that of the attempt. An acknowledged batch is "+
			"stored. An attempt saves files beside its own output only and opens files of its workspace only; one "+
			"that must stop gets no link. 429 if an attempt exceeds its limits."))
	httpapi.Post(g, StartPath, s.start, "Begin an attempt and get what to run",
		httpapi.ID("attempt-start"), httpapi.Hidden, httpapi.Quiet, httpapi.Credential(s.known), httpapi.BodyLimit(maxStart),
		httpapi.Doc("Only for the sandbox: the bearer token is that of the attempt. 409 if the attempt is over, "+
			"or another runner has begun it: nothing is to run. It may be repeated."))
	httpapi.Post(g, CompletePath, s.complete, "Deliver the result of an attempt",
		httpapi.ID("attempt-complete"), httpapi.Hidden, httpapi.Quiet, httpapi.Credential(s.known), httpapi.BodyLimit(maxBody),
		httpapi.Doc("Only for the sandbox: the bearer token is that of the attempt. The first result counts, and "+
			"it may be repeated. 409 if the attempt is not this runner's any more. A runner that can go on may get "+
			"the run's next attempt, which it has begun then."))
}
