package environments

// VariableState is a variable of one environment.
type VariableState struct {
	Value   string `json:"value"`
	Enabled bool   `json:"enabled"`
}

// VariableDiff is a variable that differs.
type VariableDiff struct {
	Key  string         `json:"key"`
	From *VariableState `json:"from" doc:"In env_name; null: not there"`
	To   *VariableState `json:"to" doc:"In target_env; null: not there"`
}

// PinnedVersion is a deployment with the flow version that it selects.
type PinnedVersion struct {
	DeploymentName string `json:"deployment_name"`
	FlowVersion    string `json:"flow_version"`
}

// FlowDiff is a flow whose deployments differ.
type FlowDiff struct {
	FlowName string          `json:"flow_name"`
	From     []PinnedVersion `json:"from" doc:"Its deployments in env_name"`
	To       []PinnedVersion `json:"to" doc:"Its deployments in target_env"`
}

// VariablesDiff are the variables that differ.
type VariablesDiff struct {
	Added   []VariableDiff `json:"added"`
	Removed []VariableDiff `json:"removed"`
	Changed []VariableDiff `json:"changed"`
}

// SecretsDiff are the names of secrets that differ.
type SecretsDiff struct {
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	Changed []string `json:"changed" doc:"Always empty: values are not compared"`
}

// DeploymentsDiff are the flows whose deployments differ.
type DeploymentsDiff struct {
	Added   []FlowDiff `json:"added"`
	Removed []FlowDiff `json:"removed"`
	Changed []FlowDiff `json:"changed" doc:"Their versions differ"`
}

// EnvironmentDiffResponse is what target_env has otherwise than env_name.
type EnvironmentDiffResponse struct {
	Variables   VariablesDiff   `json:"variables"`
	Secrets     SecretsDiff     `json:"secrets"`
	Deployments DeploymentsDiff `json:"deployments"`
}

// EnvironmentPromoteRequest is the body of POST /environments/promote.
type EnvironmentPromoteRequest struct {
	Source      string    `json:"source" is:"name" example:"staging"`
	Target      string    `json:"target" is:"name" example:"production"`
	Deployments *[]string `json:"deployments,omitempty" maxItems:"2000" doc:"Names of deployments of the source; absent or null: all"`
	Variables   *[]string `json:"variables,omitempty" maxItems:"200" doc:"Keys of variables of the source; absent or null: all"`
	DryRun      bool      `json:"dry_run,omitempty" example:"true" doc:"Only tell what would be done"`
}

// PromotedDeployment is a deployment of the target that a promotion makes or changes.
type PromotedDeployment struct {
	DeploymentName   string  `json:"deployment_name"`
	SourceDeployment string  `json:"source_deployment"`
	FlowName         string  `json:"flow_name"`
	FromVersion      *string `json:"from_version" doc:"null for a new deployment"`
	ToVersion        string  `json:"to_version"`
	Action           string  `json:"action" enum:"added,changed"`
	// Schedule is a copy of that of the source's deployment.
	Schedule *PromotedSchedule `json:"schedule" doc:"That a new deployment gets from the source's: it starts runs as soon as the deployment exists if it is enabled. null: none; a deployment that is there already keeps its own"`
}

// PromotedSchedule is the schedule of a new deployment.
type PromotedSchedule struct {
	ScheduleID     string `json:"schedule_id"`
	CronExpression string `json:"cron_expression"`
	Timezone       string `json:"timezone"`
	Enabled        bool   `json:"enabled"`
	NextRunEpoch   *int64 `json:"next_run_epoch" doc:"Unix seconds; null while it is not enabled"`
}

// PromotedVariable is a variable of the target that a promotion makes or changes.
type PromotedVariable struct {
	Key    string         `json:"key"`
	From   *VariableState `json:"from" doc:"In the target before; null: not there"`
	To     VariableState  `json:"to"`
	Action string         `json:"action" enum:"added,changed"`
}

// EnvironmentPromoteResponse is what a promotion did, or would do. What is the same
// already is left out.
type EnvironmentPromoteResponse struct {
	Source      string               `json:"source"`
	Target      string               `json:"target"`
	DryRun      bool                 `json:"dry_run"`
	Deployments []PromotedDeployment `json:"deployments"`
	Variables   []PromotedVariable   `json:"variables"`
}

type diffIn struct {
	Path
	Target string `path:"target_env" is:"name"`
}

type promoteIn struct{ Body EnvironmentPromoteRequest }
