package runstate

// RunResponse is a run as it was accepted.
type RunResponse struct {
	RunID         string  `json:"run_id"`
	RunSlug       string  `json:"run_slug" doc:"Three words and a number"`
	FlowName      string  `json:"flow_name"`
	FlowVersion   string  `json:"flow_version"`
	Deployment    *string `json:"deployment"`
	Environment   string  `json:"environment"`
	ExecutionMode string  `json:"execution_mode"`
	TriggerSource string  `json:"trigger_source" doc:"manual, schedule, sensor, retry, backfill or flow"`
	Status        string  `json:"status" doc:"QUEUED, RUNNING, SUCCEEDED, FAILED, TIMED_OUT, CANCELLATION_REQUESTED or CANCELLED"`
	CreatedAt     string  `json:"created_at"`
}

// Response is the run as it was accepted.
func (r *Run) Response() RunResponse {
	out := RunResponse{
		RunID: r.ID, RunSlug: r.Slug, FlowName: r.Flow, FlowVersion: r.Version,
		Environment: r.Environment, ExecutionMode: r.Mode, TriggerSource: r.Trigger,
		Status: string(r.Status), CreatedAt: r.CreatedAt.String(),
	}
	if r.Deployment != "" {
		out.Deployment = &r.Deployment
	}
	return out
}
