package runs

import (
	"millrace/shared/account/tenant"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

type runPath struct {
	RunID string `path:"run_id" maxLength:"128" doc:"Its id or its slug"`
}

// nothing is the empty body of an operation: absent, null or {}.
type nothing struct{}

type runAction struct {
	RunID string `path:"run_id" maxLength:"128" doc:"Its id or its slug"`
	Body  *nothing
}

type retryAction struct {
	RunID       string `path:"run_id" maxLength:"128" doc:"Its id or its slug"`
	FlowVersion string `query:"flow_version" is:"name or empty" doc:"The version of the flow to run, or latest; absent: that of the run"`
	Body        *nothing
}

type outputQuery struct {
	RunID    string `path:"run_id" maxLength:"128" doc:"Its id or its slug"`
	TaskName string `path:"task_name" maxLength:"64"`
	MapIndex *int   `query:"map_index" minimum:"0" doc:"Of an instance of a mapped task, from 0; absent: the list of what all instances handed on"`
	Attempt  *int   `query:"attempt" minimum:"1" doc:"Absent: the newest"`
}

type createInput struct {
	Key  string `header:"Idempotency-Key" maxLength:"255" doc:"For 24 hours, the same key with the same body gives the first answer again; per workspace and flow"`
	Body RunRequest
}

type listQuery struct {
	FlowName      string `query:"flow_name" is:"name or empty"`
	Environment   string `query:"environment" is:"name or empty"`
	Deployment    string `query:"deployment" is:"name or empty"`
	Status        string `query:"status" enum:"QUEUED,RUNNING,SUCCEEDED,FAILED,TIMED_OUT,CANCELLATION_REQUESTED,CANCELLED"`
	TriggerSource string `query:"trigger_source" enum:"manual,schedule,sensor,retry,backfill,flow"`
	TriggeredBy   string `query:"triggered_by" maxLength:"320" doc:"As the record has it: the email of a user, api-key:<key_id>, schedule:<schedule_id> or backfill:<backfill_id>"`
	Since         string `query:"since" maxLength:"64" doc:"Only runs created then or later; an ISO 8601 timestamp, in UTC unless it names an offset"`
	Until         string `query:"until" maxLength:"64" doc:"Only runs created then or earlier"`
	Limit         *int   `query:"limit" doc:"Clamped to 1 to 500; absent: all runs, streamed"`
}

type logsQuery struct {
	RunID     string `path:"run_id" maxLength:"128" doc:"Its id or its slug"`
	TaskName  string `query:"task_name" maxLength:"64" doc:"Only events of this task"`
	Level     string `query:"level" enum:"debug,info,warning,error,critical" doc:"Only events of this level and those above"`
	Since     string `query:"since" maxLength:"64" doc:"Only events of then or later; an ISO 8601 timestamp, in UTC unless it names an offset"`
	Limit     int    `query:"limit" minimum:"1" default:"500" doc:"At most 10,000 events a page, however many are asked for; a page ends at 4 MB, too"`
	NextToken string `query:"next_token" maxLength:"4096"`
}

type compareQuery struct {
	RunA string `query:"run_a" required:"true" maxLength:"128" doc:"Its id or its slug"`
	RunB string `query:"run_b" required:"true" maxLength:"128" doc:"Its id or its slug"`
}

func routes(api *httpapi.API, d fn.Deps) {
	s := &service{
		table: d.Table, blob: d.Blob, log: d.Log, logs: d.Logs, hub: d.Broker, waiting: d.Waiting, cursors: api.Cursors(),
		launcher: d.Launcher(), clock: d.Clock,
	}
	g := httpapi.Group{API: api, Function: name, Reads: tenant.Needs(tenant.RunsRead), Writes: tenant.Needs(tenant.RunsTrigger)}
	const one = "/runs/{run_id}"
	const byName = " A slug may stand for the run's id; one of several runs is 409."
	httpapi.Get(g, "/runs", s.list, "List runs", httpapi.Doc("Newest first. Without limit the list has every run and is streamed; a workspace reads one such list of 100 runs or more at a time, another is 429 meanwhile. "+
		"flow_name, environment, since and until are looked up; deployment, status, trigger_source and triggered_by are compared with what is found: "+
		"a list with one of them goes through 10,000 runs at most, and if it ends early has next_until, from where the same request goes on."))
	httpapi.Get(g, "/runs/compare", s.compare, "Compare two runs", httpapi.Errors(404, 409),
		httpapi.Doc("Deltas are B minus A in milliseconds: positive when run B took longer, null where a time is missing. "+
			"Tasks are matched by name and shown by their latest attempt, a mapped task as a whole. Costs are null where they are not known."))
	httpapi.Get(g, one, s.get, "Get a run with its task attempts", httpapi.Errors(409),
		httpapi.Doc("Outputs are inlined up to 1 MB in all; larger ones, and those beyond that, are given by output_uri and read by GET /runs/{run_id}/tasks/{task_name}/output. "+
			"A mapped task whose list was evaluated is shown by its instances alone."+byName))
	const large = " JSON; above 1 MB 302 and a presigned URL, which is good for 15 minutes."
	httpapi.Get(g, one+"/tasks/{task_name}/output", s.output, "Read what a task handed on", httpapi.Errors(302, 409, 410),
		httpapi.Doc("Answers 200 and the"+large+" Without map_index the list of a mapped task has null for an instance that did not succeed; "+
			"one that no other task reads is put together for the answer, and is streamed whatever its size. "+
			"404 while there is none, and for an attempt that did not succeed; 410 if the object store has lost it."+byName))
	httpapi.Get(g, one+"/result", s.result, "Read what a run results in", httpapi.Errors(302, 409, 410),
		httpapi.Doc("Answers 200 and the"+large+" It is the value of the flow_spec's result; 404 where there is none, 410 if the object store has lost it."+byName))
	httpapi.Get(g, one+"/logs", s.logsPage, "Read a page of a run's log", httpapi.ID("runs-logs"), httpapi.Errors(400, 409),
		httpapi.Doc("From its beginning on, in order. While the run is live there is always a next_token: the page may be empty and the next one not. "+
			"A token holds across the switch to the archive, and for the filters it was given with: a page with filters goes through 16 MB of the log at most, and may be empty."+byName))
	httpapi.Post(g, "/runs", s.create, "Start a run", httpapi.Errors(400, 404, 409),
		httpapi.Example(`{"deployment": "daily-sales", "parameters": {"day": "2026-03-04"}, "execution_mode": "small"}`),
		httpapi.Doc("Of a deployment, or of flow_name and flow_version: without either it is 400. Answers at once with the run QUEUED. "+
			"With execute the answer begins when it is accepted, is kept open with white space, and is the run's detail, as GET /runs/{run_id} gives it, "+
			"once the run has ended, or as it is after 14.5 minutes. A client that leaves does not stop the run. "+
			"Parameters that take too much work to check against the flow's schema, or whose defaults grow beyond 1 MB, are 422.\n\n"+
			"Without an Idempotency-Key a repeated request makes another run. A key that was used for another body is 422; one whose first request is still being accepted, 409."))
	httpapi.Post(g, one+"/cancel", s.cancel, "Cancel a run", httpapi.Errors(400, 409), httpapi.Access(tenant.Needs(tenant.RunsCancel)), httpapi.Reclaims,
		httpapi.Doc("A queued run is cancelled at once; of a running one the tasks are stopped, or it ends between two tasks. What tasks have done is not undone. "+
			"May be repeated, and then changes nothing; a run that has ended otherwise is 400."))
	const refused = " A run that has not ended is 409, and so is one whose flow version was registered anew with other content."
	httpapi.Post(g, one+"/retry", s.retry, "Retry a run", httpapi.Errors(409),
		httpapi.Doc("Makes a new run of the same flow version with the same parameters, environment and tier. Takes no body."+refused))
	httpapi.Post(g, one+"/retry-from-failed", s.retryFromFailed, "Retry a run from its failed tasks", httpapi.Errors(409),
		httpapi.Doc("As retry, but what succeeded is planned to be reused: a task none of whose ancestors runs again, and instances of a mapped task if its list turns out the same. "+
			"If nothing succeeded it is a full retry. A run that SUCCEEDED is 409. "+
			"With flow_version the new run is of that version of the flow, checks its parameters against it, and reuses a task whose entry in the flow_spec, and those of all tasks before it, are the same in both: "+
			"the code of a reused task is not compared. skip_task_ids names what is reused."+refused))
}
