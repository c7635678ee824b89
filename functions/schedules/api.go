package schedules

import (
	"encoding/json"

	"millrace/shared/account/tenant"
	"millrace/shared/run/schedule"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// ScheduleRequest is the body of POST /schedules.
type ScheduleRequest struct {
	ScheduleID      *string                    `json:"schedule_id,omitempty" is:"name" example:"nightly" doc:"Absent: one is made. The schedule of an existing id is replaced"`
	FlowName        *string                    `json:"flow_name,omitempty" is:"name" doc:"With flow_version; with deployment it may be left out"`
	FlowVersion     *string                    `json:"flow_version,omitempty" is:"name"`
	Deployment      *string                    `json:"deployment,omitempty" is:"name" example:"daily-sales" doc:"Runs are of the version that the deployment selects then"`
	Mode            string                     `json:"mode" enum:"interval,cron" example:"cron"`
	IntervalSeconds *int64                     `json:"interval_seconds,omitempty" minimum:"60" maximum:"31622400" doc:"Of mode interval; the first run starts one interval after the schedule is made"`
	CronExpression  *string                    `json:"cron_expression,omitempty" maxLength:"256" example:"30 6 * * MON-FRI" doc:"Of mode cron: five fields, or @hourly, @daily, @weekly, @monthly, @yearly"`
	Timezone        *string                    `json:"timezone,omitempty" maxLength:"64" example:"Europe/Berlin" doc:"IANA name, of mode cron; UTC, unless it is named. A time that the clock skips runs once right after it, one that it repeats runs once; expressions that name every hour follow elapsed time"`
	Enabled         *bool                      `json:"enabled,omitempty" doc:"true, unless it is false"`
	CatchupPolicy   *string                    `json:"catchup_policy,omitempty" enum:"none,all" doc:"What becomes of occurrences that were missed: none (the default) makes one run and goes on from now, all makes every run, the oldest first"`
	Environment     *string                    `json:"environment,omitempty" is:"name" doc:"null: the deployment's, or default"`
	Parameters      map[string]json.RawMessage `json:"parameters,omitempty"`
	ExecutionMode   *string                    `json:"execution_mode,omitempty" maxLength:"64" doc:"nano, micro, small, medium, large or xlarge; null: the deployment's, or the flow version's. Another is 400"`
}

// SchedulePatchRequest is the body of PATCH /schedules/{schedule_id}. What is
// absent keeps its value, null clears it.
type SchedulePatchRequest struct {
	Nulls           httpapi.Nulls               `json:"-"`
	FlowName        *string                     `json:"flow_name,omitempty" is:"name"`
	FlowVersion     *string                     `json:"flow_version,omitempty" is:"name"`
	Deployment      *string                     `json:"deployment,omitempty" is:"name"`
	Mode            *string                     `json:"mode,omitempty" enum:"interval,cron"`
	IntervalSeconds *int64                      `json:"interval_seconds,omitempty" minimum:"60" maximum:"31622400"`
	CronExpression  *string                     `json:"cron_expression,omitempty" maxLength:"256"`
	Timezone        *string                     `json:"timezone,omitempty" maxLength:"64"`
	Enabled         *bool                       `json:"enabled,omitempty" example:"false"`
	CatchupPolicy   *string                     `json:"catchup_policy,omitempty" enum:"none,all"`
	Environment     *string                     `json:"environment,omitempty" is:"name"`
	Parameters      *map[string]json.RawMessage `json:"parameters,omitempty" doc:"Replaces all"`
	ExecutionMode   *string                     `json:"execution_mode,omitempty" maxLength:"64"`
}

// ScheduleTriggerRequest is the body of POST /schedules/{schedule_id}/trigger.
type ScheduleTriggerRequest struct {
	Parameters map[string]json.RawMessage `json:"parameters,omitempty" doc:"Over the schedule's own"`
}

// ScheduleListResponse lists schedules.
type ScheduleListResponse struct {
	Items     []schedule.Schedule `json:"items"`
	NextToken string              `json:"next_token,omitempty" doc:"Absent at the end"`
}

// Path names a schedule.
type Path struct {
	ID string `path:"schedule_id" is:"name"`
}

type (
	createIn struct{ Body ScheduleRequest }
	listIn   struct {
		FlowName  string `query:"flow_name" is:"name or empty"`
		Mode      string `query:"mode" enum:"interval,cron"`
		Enabled   *bool  `query:"enabled"`
		Limit     int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
		NextToken string `query:"next_token" maxLength:"4096"`
	}
	patchIn struct {
		Path
		Body SchedulePatchRequest
	}
	triggerIn struct {
		Path
		Body *ScheduleTriggerRequest
	}
)

func routes(api *httpapi.API, d fn.Deps) {
	s := newService(d)
	s.cursors = api.Cursors()
	write := tenant.Needs(tenant.SchedulesWrite)
	g := httpapi.Group{API: api, Function: name, Reads: tenant.Needs(tenant.SchedulesRead), Writes: write}
	const one = "/schedules/{schedule_id}"
	httpapi.Post(g, "/schedules", s.put, "Create or replace a schedule", httpapi.Errors(400, 404, 409),
		httpapi.Access(write.Keys(string(tenant.RunsTrigger), string(tenant.SchedulesWrite))),
		httpapi.Doc("Of a deployment, or of flow_name and flow_version. Flow, parameters and timing are checked now, as for a run. "+
			"Each occurrence makes one run, however often a tick repeats; ticks come every minute. "+
			"While the schedule is enabled, the flow that it names cannot be deleted."))
	httpapi.Get(g, "/schedules", s.list, "List schedules", httpapi.Errors(400), httpapi.Doc("Ordered by schedule_id."),
		httpapi.Access(tenant.Needs(tenant.SchedulesRead).Keys(string(tenant.RunsRead), string(tenant.SchedulesRead))))
	httpapi.Get(g, one, s.get, "Get a schedule")
	httpapi.Patch(g, one, s.patch, "Change a schedule", httpapi.Errors(400, 409),
		httpapi.Doc("What is absent keeps its value, null clears it. A schedule whose timing changes, or that is enabled again, begins anew: what it missed is not caught up. There is no operation that deletes one: disable it."))
	httpapi.Post(g, one+"/trigger", s.trigger, "Start a run of a schedule now", httpapi.Errors(409), httpapi.Access(tenant.Needs(tenant.RunsTrigger)),
		httpapi.Example(`{"parameters": {"day": "2026-03-04"}}`),
		httpapi.Doc("Also of a disabled one. It is no occurrence: the schedule's next run is not affected."))
}
