package environments

import (
	"millrace/shared/account/tenant"
	"millrace/shared/run/registry"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// EnvironmentCreateRequest is the body of POST /environments.
type EnvironmentCreateRequest struct {
	Name        string `json:"name" is:"name" example:"staging"`
	Description string `json:"description,omitempty" maxLength:"4096" example:"Runs on a copy of the warehouse"`
	Color       string `json:"color,omitempty" maxLength:"32" example:"#d29922" doc:"Shown beside the name"`
	Protected   bool   `json:"protected,omitempty" doc:"Only owners and admins promote into it"`
}

// EnvironmentUpdateRequest is the body of PATCH /environments/{env_name}. Fields
// that are absent or null are not changed.
type EnvironmentUpdateRequest struct {
	Description *string `json:"description,omitempty" maxLength:"4096" example:"Runs on a copy of the warehouse"`
	Color       *string `json:"color,omitempty" maxLength:"32" example:"#d29922"`
	Protected   *bool   `json:"protected,omitempty" example:"true" doc:"Only owners and admins promote into it"`
}

// EnvironmentReorderRequest is the body of PUT /environments/reorder.
type EnvironmentReorderRequest struct {
	Order []string `json:"order" minItems:"1" maxItems:"1000" example:"[\"staging\",\"default\",\"production\"]" doc:"Every environment once"`
}

// EnvironmentResponse is an environment.
type EnvironmentResponse struct {
	registry.Environment
	Position int `json:"position" doc:"In the order of the environments, from 1"`
}

// EnvironmentListResponse lists environments.
type EnvironmentListResponse struct {
	Items []EnvironmentResponse `json:"items"`
}

// DeletedEnvironment tells what was deleted.
type DeletedEnvironment struct {
	Status string `json:"status" enum:"deleted"`
	Name   string `json:"name"`
}

// Path identifies an environment.
type Path struct {
	Name string `path:"env_name" is:"name"`
}

type (
	listIn struct {
		Limit int `query:"limit" minimum:"1" maximum:"1000" default:"50"`
	}
	createIn struct{ Body EnvironmentCreateRequest }
	updateIn struct {
		Path
		Body EnvironmentUpdateRequest
	}
	reorderIn struct{ Body EnvironmentReorderRequest }
)

func routes(api *httpapi.API, d fn.Deps) {
	s := &service{store: d.Registry(), secrets: d.Records()}
	g := httpapi.Group{API: api, Function: name, Reads: tenant.Needs(tenant.EnvironmentsRead), Writes: tenant.Needs(tenant.EnvironmentsWrite)}
	const (
		one       = "/environments/{env_name}"
		variables = one + "/variables"
		variable  = variables + "/{var_key}"
	)
	httpapi.Post(g, "/environments", s.create, "Create an environment", httpapi.Status(201), httpapi.Errors(409),
		httpapi.Doc("It comes last in the order. A deployment that names an environment that is not there makes it, too."))
	httpapi.Get(g, "/environments", s.list, "List environments",
		httpapi.Doc("In the workspace's order, up to limit. Every workspace has the environment default."))
	httpapi.Post(g, "/environments/promote", s.promote, "Promote from one environment to another", httpapi.Status(201), httpapi.Errors(409),
		httpapi.Doc("Gives the deployments of the target the flow versions that the deployments of the same flows have in the source, "+
			"and copies variables with their values. A flow without a deployment in the target gets one like that in the source, "+
			"named like it with the target in place of the source at its end, or added to it. Nothing is removed from the target, and secrets are not copied. "+
			"With dry_run nothing is changed. Variables are changed first, at once, then each deployment by itself; if that is interrupted, "+
			"promote again: what is done already is not done again. A protected target takes an owner or admin, or an API key with full access."))
	httpapi.Put(g, "/environments/reorder", s.reorder, "Set the order of the environments", httpapi.Errors(409))
	httpapi.Get(g, one, s.get, "Get an environment")
	httpapi.Patch(g, one, s.update, "Change an environment", httpapi.Errors(409))
	httpapi.Delete(g, one, s.delete, "Delete an environment", httpapi.Errors(409),
		httpapi.Doc("With its variables and secrets. 409 names the deployments and the unfinished runs that are in it; default cannot be deleted. "+
			"Runs that have ended stay, and cannot be retried."))
	httpapi.Get(g, one+"/diff/{target_env}", s.diff, "Compare two environments",
		httpapi.Doc("Added is what only target_env has, removed what only env_name has. Deployments are compared by their flows, "+
			"of secrets only the names: their values are not compared, so that none is ever changed."))
	httpapi.Get(g, variables, s.variables, "List an environment's variables", httpapi.Doc("In order of their keys, with those that are disabled."))
	httpapi.Put(g, variables, s.putVariables, "Replace an environment's variables", httpapi.Errors(409), httpapi.Doc("All of them; a variable that was disabled and stays remains so."+seen))
	httpapi.Patch(g, variables, s.patchVariables, "Change some of an environment's variables", httpapi.Errors(409), httpapi.Doc("A null deletes the variable; what is not named stays."+seen))
	httpapi.Delete(g, variable, s.deleteVariable, "Delete a variable", httpapi.Errors(409))
	httpapi.Post(g, variable+"/toggle", s.toggleVariable, "Enable or disable a variable", httpapi.Errors(409),
		httpapi.Doc("Without enabled it becomes what it is not. Runs do not see a disabled variable."+seen))
}

// seen is what every change of variables means for runs.
const seen = " Runs see the variables as they were when the run was accepted: vars.KEY in expressions."
