package backfills

import (
	"encoding/json"

	"millrace/shared/account/tenant"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// BackfillRequest is the body of POST /flows/{flow_name}/backfill.
type BackfillRequest struct {
	From            string                     `json:"from" maxLength:"64" example:"2026-03-01" doc:"The window's beginning: an ISO 8601 timestamp or a date. Without an offset it is in the zone of the stored schedule that gives the cadence, otherwise in UTC. Not before 1900"`
	To              string                     `json:"to" maxLength:"64" example:"2026-03-31" doc:"The window's end, which belongs to it; of a date, the end of that day"`
	CronExpression  *string                    `json:"cron_expression,omitempty" maxLength:"256" example:"30 6 * * *" doc:"The cadence, in UTC"`
	IntervalSeconds *int64                     `json:"interval_seconds,omitempty" minimum:"1" maximum:"31622400" doc:"The cadence, from the window's beginning on"`
	DryRun          bool                       `json:"dry_run,omitempty" default:"false" doc:"Only say what would run"`
	Environment     *string                    `json:"environment,omitempty" is:"name" doc:"null: the stored schedule's, else the deployment's, or default"`
	MaxConcurrency  *int                       `json:"max_concurrency,omitempty" minimum:"1" maximum:"100" default:"1" doc:"How many of its runs are unfinished at once, at most"`
	Parameters      map[string]json.RawMessage `json:"parameters,omitempty" doc:"Of each run, over those of the stored schedule. data_interval_start, logical_date and ds are set for each interval unless they are given here"`
}

// IntervalView is one interval of a backfill.
type IntervalView struct {
	Index        int     `json:"index" doc:"From 0"`
	LogicalEpoch int64   `json:"logical_epoch" doc:"Unix seconds of the occurrence"`
	LogicalAt    string  `json:"logical_at"`
	RunID        *string `json:"run_id"`
	Status       string  `json:"status" enum:"PENDING,DISPATCHED,SUCCEEDED,FAILED,CANCELLED" default:"PENDING" doc:"DISPATCHED until the run has ended; a run that TIMED_OUT is FAILED"`
	Reason       *string `json:"reason" doc:"Why the interval FAILED: its run's error, cut short, or why it has no run"`
}

// SchemaName is the name of the schema in the API's description.
func (IntervalView) SchemaName() string { return "BackfillIntervalView" }

// BackfillResponse is a backfill.
type BackfillResponse struct {
	Job
	Parameters map[string]json.RawMessage `json:"parameters" doc:"Of each run, without those that are set for each interval. Empty in a list"`
	Intervals  []IntervalView             `json:"intervals" doc:"All of them, in order of time. Empty in a list"`
}

// BackfillListResponse lists backfills.
type BackfillListResponse struct {
	Items     []BackfillResponse `json:"items"`
	NextToken string             `json:"next_token,omitempty" doc:"Absent at the end"`
}

// Path names a backfill.
type Path struct {
	ID string `path:"backfill_id" is:"name"`
}

type (
	createIn struct {
		FlowName string `path:"flow_name" is:"name"`
		Body     BackfillRequest
	}
	listIn struct {
		Limit     int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
		NextToken string `query:"next_token" maxLength:"4096"`
	}
	// nothing is an empty body: absent, null or {}.
	nothing  struct{}
	cancelIn struct {
		Path
		Body *nothing
	}
)

func routes(api *httpapi.API, d fn.Deps) {
	s := newService(d)
	s.cursors = api.Cursors()
	write := tenant.Needs(tenant.RunsTrigger)
	g := httpapi.Group{API: api, Function: name, Reads: tenant.Needs(tenant.RunsRead), Writes: write}
	const one = "/backfills/{backfill_id}"
	const off = " 503 where an operator has switched backfills off for the workspace."
	httpapi.Post(g, "/flows/{flow_name}/backfill", s.create, "Run a flow for each occurrence in a window of time",
		httpapi.Errors(400, 404, 409, 503), httpapi.Access(write.KeysAlso(string(tenant.FlowsWrite), tenant.ScopeAdmin)),
		httpapi.Doc("The window includes both ends. The cadence is cron_expression or interval_seconds, not both; without either it is that of the flow's stored schedule, "+
			"in its time zone and with interval schedules counted from the window's beginning. Of several schedules the enabled ones count; if it is still not clear which, 422 names them.\n\n"+
			"Runs are of what the stored schedule runs (its deployment or flow version, environment, tier and parameters), also with a cadence of its own. "+
			"A flow without a schedule runs its version named 1; where it has none, the deployment that has the flow's name; where there is none either, 422: a schedule, which may be disabled, says which version to run.\n\n"+
			"At most 10,000 occurrences; more are 422, and so is a window without any. The first runs start within a second of the answer, in order of time, "+
			"max_concurrency of them at once; the next one starts when one has ended, however it has ended. A limit of the workspace delays runs. "+
			"A run that is refused otherwise (the flow was deleted, the deployment is inactive) makes its interval FAILED with a reason, and the backfill goes on. "+
			"A backfill whose intervals are all finished is COMPLETED, also if some have failed. "+
			"Its runs have trigger_source backfill and triggered_by backfill:<backfill_id>.\n\n"+
			"With dry_run the answer is DRY_RUN with all intervals, nothing is stored, and backfill_id is empty."+off))
	httpapi.Get(g, "/backfills", s.list, "List backfills", httpapi.Errors(400, 503),
		httpapi.Doc("The newest first, without their intervals and parameters."+off))
	httpapi.Get(g, one, s.get, "Get a backfill with its intervals", httpapi.Errors(503),
		httpapi.Doc("All intervals, at most 10,000. The counts are those of the intervals shown."+off))
	httpapi.Post(g, one+"/cancel", s.cancel, "Cancel a backfill", httpapi.Errors(409, 503), httpapi.Reclaims,
		httpapi.Doc("Intervals that are PENDING become CANCELLED; runs that were dispatched go on, and their intervals follow them. "+
			"May be repeated, and then changes nothing; a COMPLETED backfill is 409."+off))
}
