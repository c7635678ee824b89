package sandboxlogs

import (
	"encoding/json"

	"millrace/shared/account/tenant"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// maxBody is the largest batch in bytes. The runner sends batches of a quarter
// of it, but a single log line may be long.
const maxBody = 1 << 20

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

func routes(api *httpapi.API, d fn.Deps) {
	s := &service{table: d.Table, blob: d.Blob, clock: d.Clock, logs: d.Logs, limits: newLimits(), key: d.Config.AttemptKey}
	g := httpapi.Group{API: api, Function: name, Writes: tenant.Public}
	httpapi.Post(g, Path, s.post, "Store a batch of a task's log, ask whether the task must stop, or for the link of a file",
		httpapi.ID("attempt-logs"), httpapi.Hidden, httpapi.BodyLimit(maxBody),
		httpapi.Doc("Only for the sandbox: the bearer token is that of the attempt. An acknowledged batch is "+
			"stored. An attempt saves files beside its own output only and opens files of its workspace only; one "+
			"that must stop gets no link. 429 if an attempt exceeds its limits."))
}
