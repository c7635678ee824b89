package runs

import (
	"millrace/shared/account/tenant"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

type runPath struct {
	RunID string `path:"run_id" maxLength:"128"`
}

// nothing is the body of an operation that takes none: absent, null or {}.
type nothing struct{}

type runAction struct {
	RunID string `path:"run_id" maxLength:"128"`
	Body  *nothing
}

type createInput struct {
	Key  string `header:"Idempotency-Key" maxLength:"255" doc:"For 24 hours, the same key with the same body gives the first answer again; per workspace and flow"`
	Body RunRequest
}

type listQuery struct {
	FlowName    string `query:"flow_name" is:"name or empty"`
	Environment string `query:"environment" is:"name or empty"`
	Since       string `query:"since" maxLength:"64" doc:"Only runs created then or later; an ISO 8601 timestamp, in UTC unless it names an offset"`
	Limit       *int   `query:"limit" doc:"Clamped to 1 to 500; absent: all runs, streamed"`
}

type logsQuery struct {
	RunID     string `path:"run_id" maxLength:"128"`
	Limit     int    `query:"limit" minimum:"1" default:"500" doc:"At most 10,000 events a page, however many are asked for; a page ends at 4 MB, too"`
	NextToken string `query:"next_token" maxLength:"4096"`
}

type compareQuery struct {
	RunA string `query:"run_a" required:"true" maxLength:"128"`
	RunB string `query:"run_b" required:"true" maxLength:"128"`
}

func routes(api *httpapi.API, d fn.Deps) {
	s := &service{
		table: d.Table, blob: d.Blob, log: d.Log, logs: d.Logs, hub: d.Hub, waiting: d.Waiting, cursors: api.Cursors(),
		launcher: d.Launcher(),
	}
	g := httpapi.Group{API: api, Function: name, Reads: tenant.Needs(tenant.RunsRead), Writes: tenant.Needs(tenant.RunsTrigger)}
	const one = "/runs/{run_id}"
	httpapi.Get(g, "/runs", s.list, "List runs", httpapi.Doc("Newest first. Without limit the list has every run and is streamed."))
	httpapi.Get(g, "/runs/compare", s.compare, "Compare two runs", httpapi.Errors(404),
		httpapi.Doc("Deltas are B minus A in milliseconds: positive when run B took longer, null where a time is missing. "+
			"Tasks are matched by name and shown by their latest attempt, a mapped task as a whole. Costs are null where they are not known."))
	httpapi.Get(g, one, s.get, "Get a run with its task attempts",
		httpapi.Doc("Outputs are inlined up to 1 MB in all; larger ones, and those beyond that, are given by output_uri. "+
			"A mapped task whose list was evaluated is shown by its instances alone."))
	httpapi.Get(g, one+"/logs", s.logsPage, "Read a page of a run's log", httpapi.ID("runs-logs"), httpapi.Errors(400),
		httpapi.Doc("From its beginning on, in order. While the run is live there is always a next_token: the page may be empty and the next one not. "+
			"A token holds across the switch to the archive."))
	httpapi.Post(g, "/runs", s.create, "Start a run", httpapi.Errors(400, 404, 409),
		httpapi.Example(`{"deployment": "daily-sales", "parameters": {"day": "2026-03-04"}, "execution_mode": "small"}`),
		httpapi.Doc("Of a deployment, or of flow_name and flow_version: without either it is 400. Answers at once with the run QUEUED. "+
			"With execute the answer begins when it is accepted, is kept open with white space, and is the run's detail, as GET /runs/{run_id} gives it, "+
			"once the run has ended, or as it is after 14.5 minutes. A client that leaves does not stop the run. "+
			"Parameters that take too much work to check against the flow's schema, or whose defaults grow beyond 1 MB, are 422.\n\n"+
			"Without an Idempotency-Key a repeated request makes another run. A key that was used for another body is 422; one whose first request is still being accepted, 409."))
	httpapi.Post(g, one+"/cancel", s.cancel, "Cancel a run", httpapi.Errors(400), httpapi.Access(tenant.Needs(tenant.RunsCancel)), httpapi.Reclaims,
		httpapi.Doc("A queued run is cancelled at once; of a running one the tasks are stopped, or it ends between two tasks. What tasks have done is not undone. "+
			"May be repeated, and then changes nothing; a run that has ended otherwise is 400."))
	const refused = " A run that has not ended is 409, and so is one whose flow version was registered anew with other content."
	httpapi.Post(g, one+"/retry", s.retry, "Retry a run", httpapi.Errors(409),
		httpapi.Doc("Makes a new run of the same flow version with the same parameters, environment and tier. Takes no body."+refused))
	httpapi.Post(g, one+"/retry-from-failed", s.retryFromFailed, "Retry a run from its failed tasks", httpapi.Errors(409),
		httpapi.Doc("As retry, but what succeeded is planned to be reused: a task none of whose ancestors runs again, and instances of a mapped task if its list turns out the same. "+
			"If nothing succeeded it is a full retry."+refused))
}
