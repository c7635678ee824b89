package deployments

import (
	"millrace/shared/account/tenant"
	"millrace/shared/run/registry"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// DeploymentRequest is the body of POST /deployments.
type DeploymentRequest struct {
	DeploymentName string `json:"deployment_name" is:"name" example:"daily-sales"`
	FlowName       string `json:"flow_name" is:"name" example:"daily-sales"`
	FlowVersion    string `json:"flow_version" is:"name" example:"7"`
	Settings
	Nulls httpapi.Nulls `json:"-"`
}

// ChangeVersionRequest changes the flow version of a deployment.
type ChangeVersionRequest struct {
	FlowVersion string `json:"flow_version" is:"name" example:"7"`
}

// RollbackRequest names the deployment_version to return to.
type RollbackRequest struct {
	DeploymentVersion *int `json:"deployment_version,omitempty" minimum:"1" example:"3" doc:"Absent: the one before the current one"`
}

// UpdateDeploymentSettingsRequest changes settings. Absent ones are not
// changed.
type UpdateDeploymentSettingsRequest struct {
	Settings
	Nulls httpapi.Nulls `json:"-"`
}

// DeploymentResponse is a deployment after POST.
type DeploymentResponse struct {
	registry.DeploymentView
	EnvironmentCreated bool   `json:"environment_created,omitempty" doc:"The environment was made for this deployment"`
	NextRunEpoch       *int64 `json:"next_run_epoch,omitempty" doc:"Unix seconds of the next run of its schedule; absent without schedule, and while that is disabled"`
}

// DeploymentListItem is a deployment.
type DeploymentListItem struct{ registry.DeploymentView }

// DeploymentListResponse lists deployments.
type DeploymentListResponse struct {
	Items     []DeploymentListItem `json:"items"`
	NextToken string               `json:"next_token,omitempty" doc:"Absent at the end"`
}

// DeletedDeployment names what was deleted.
type DeletedDeployment struct {
	Status         string `json:"status" enum:"deleted"`
	DeploymentName string `json:"deployment_name"`
}

// RollbackResponse is a deployment after a rollback.
type RollbackResponse struct {
	registry.DeploymentView
	RolledBackFrom int `json:"rolled_back_from" doc:"The deployment_version before"`
	RolledBackTo   int `json:"rolled_back_to" doc:"The deployment_version whose flow version and settings it has now"`
}

type path struct {
	Name string `path:"deployment_name" is:"name"`
}

type listQuery struct {
	Environment string `query:"environment" is:"name or empty" doc:"Only deployments in this environment"`
	Limit       int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	NextToken   string `query:"next_token" maxLength:"4096"`
}

type putIn struct{ Body DeploymentRequest }

type versionIn struct {
	Name string `path:"deployment_name" is:"name"`
	Body ChangeVersionRequest
}

type rollbackIn struct {
	Name string `path:"deployment_name" is:"name"`
	Body *RollbackRequest
}

type settingsIn struct {
	Name string `path:"deployment_name" is:"name"`
	Body UpdateDeploymentSettingsRequest
}

// in the descriptions of operations that set a schedule
const scheduled = " A deployment with a schedule has it as a resource of its own, schedule_id, beside the schedules that name the deployment: " +
	"it follows every change of the deployment, is enabled, disabled and given parameters by PATCH /schedules/{schedule_id}, and stays disabled until it is enabled there. " +
	"A schedule whose runs would be refused, for a required parameter that is missing, is 422."

// in the description of every change of a deployment
const raises = " Raises deployment_version by one, unless nothing changes. Runs in flight keep the version they started with."

func routes(api *httpapi.API, d fn.Deps) {
	s := &service{store: d.Registry(), cursors: api.Cursors()}
	g := httpapi.Group{API: api, Function: name, Reads: tenant.Needs(tenant.FlowsRead), Writes: tenant.Needs(tenant.FlowsWrite)}
	const one = "/deployments/{deployment_name}"
	httpapi.Post(g, "/deployments", s.put, "Make or change a deployment", httpapi.Errors(400, 404, 409),
		httpapi.Doc("Makes the deployment, or gives an existing one of the name this flow version and these settings; settings left out stay as they are. An environment that is not there is made."+raises+scheduled+
			" An unknown flow version is 404, an unsupported runtime 400."))
	httpapi.Get(g, "/deployments", s.list, "List deployments", httpapi.Errors(400), httpapi.Doc("In order of their names."))
	httpapi.Get(g, one, s.get, "Get a deployment")
	httpapi.Patch(g, one, s.version, "Point a deployment at another version of its flow", httpapi.Errors(409),
		httpapi.Doc("An unknown version is 404."+raises))
	httpapi.Post(g, one+"/rollback", s.rollback, "Roll a deployment back", httpapi.Errors(409),
		httpapi.Doc("Gives it the flow version and settings it had at a deployment_version, by default the one before; the status stays. "+
			"Schedule and time zone are among the settings: it has the schedule that it had then, or none if it had none. "+
			"A rollback is a new deployment_version itself, so that it can be rolled back in turn. "+
			"409 if there is nothing to go back to, or the flow version is no longer registered; 404 for an unknown deployment_version."))
	httpapi.Put(g, one+"/settings", s.settings, "Change a deployment's settings", httpapi.Errors(400, 409),
		httpapi.Doc("What is absent or null stays, but schedule and timezone, which null clears. An environment that is not there is made."+raises+scheduled))
	httpapi.Delete(g, one, s.delete, "Delete a deployment", httpapi.Doc("With its history and the schedule that is set on it. Runs that it started stay."))
}
