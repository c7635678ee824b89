package deployments

import (
	"context"
	"net/http"

	"millrace/shared/account/tenant"
	"millrace/shared/run/registry"
	"millrace/shared/web/httpapi"
)

// DeploymentRequest is the body of POST /deployments.
type DeploymentRequest struct {
	DeploymentName string `json:"deployment_name" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"`
	FlowName       string `json:"flow_name" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"`
	FlowVersion    string `json:"flow_version" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"`
	Settings
}

// ChangeVersionRequest points a deployment at another version of its flow.
type ChangeVersionRequest struct {
	FlowVersion string `json:"flow_version" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"`
}

// RollbackRequest names what to go back to.
type RollbackRequest struct {
	DeploymentVersion *int `json:"deployment_version,omitempty" minimum:"1" doc:"Absent: the one before the current one"`
}

// UpdateDeploymentSettingsRequest changes settings; what is absent stays.
type UpdateDeploymentSettingsRequest struct{ Settings }

// DeploymentResponse is a deployment after POST.
type DeploymentResponse struct{ registry.DeploymentView }

// DeploymentListItem is a deployment.
type DeploymentListItem struct{ registry.DeploymentView }

// DeploymentListResponse lists deployments.
type DeploymentListResponse struct {
	Items []DeploymentListItem `json:"items"`
}

// RollbackResponse is a deployment after a rollback.
type RollbackResponse struct {
	registry.DeploymentView
	RolledBackFrom int `json:"rolled_back_from" doc:"The deployment_version before"`
	RolledBackTo   int `json:"rolled_back_to" doc:"The deployment_version whose flow version and settings it has now"`
}

type path struct {
	Name string `path:"deployment_name" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"`
}

type listQuery struct {
	Environment string `query:"environment" pattern:"^([A-Za-z0-9][A-Za-z0-9._-]{0,127})?$" doc:"Only deployments in this environment"`
	Limit       int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
}

type output[T any] struct{ Body T }

// answer makes a handler's output of a service's result.
func answer[T any](body T, err error) (*output[T], error) {
	if err != nil {
		return nil, err
	}
	return &output[T]{Body: body}, nil
}

const one = "/deployments/{deployment_name}"

// what every change of a deployment does.
const raises = " Raises deployment_version by one, unless nothing changes. Runs in flight keep the version they started with."

func (s *service) operations(api *httpapi.API) {
	reads, writes := tenant.Needs(tenant.FlowsRead), tenant.Needs(tenant.FlowsWrite)
	httpapi.Register(api, httpapi.Operation{
		ID: "deployments-put", Method: http.MethodPost, Path: "/deployments", Domain: name, Access: writes,
		Summary: "Make or change a deployment",
		Description: "Makes the deployment, or gives an existing one of the name this flow version and these settings; settings left out stay as they are." + raises +
			" An unknown flow version is 404, an unsupported runtime 400.",
		Errors: []int{400, 404, 409},
	}, func(ctx context.Context, in *struct{ Body DeploymentRequest }) (*output[DeploymentResponse], error) {
		view, err := s.put(ctx, &in.Body)
		return answer(DeploymentResponse{view}, err)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "deployments-list", Method: http.MethodGet, Path: "/deployments", Domain: name, Access: reads,
		Summary: "List deployments", Description: "In order of their names, up to limit.",
	}, func(ctx context.Context, in *listQuery) (*output[DeploymentListResponse], error) {
		return answer(s.list(ctx, in))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "deployments-get", Method: http.MethodGet, Path: one, Domain: name, Access: reads,
		Summary: "Get a deployment", Errors: []int{404},
	}, func(ctx context.Context, in *path) (*output[DeploymentListItem], error) {
		view, err := s.get(ctx, in.Name)
		return answer(DeploymentListItem{view}, err)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "deployments-version", Method: http.MethodPatch, Path: one, Domain: name, Access: writes,
		Summary: "Point a deployment at another version of its flow", Description: "An unknown version is 404." + raises,
		Errors: []int{404, 409},
	}, func(ctx context.Context, in *struct {
		Name string `path:"deployment_name" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"`
		Body ChangeVersionRequest
	}) (*output[DeploymentListItem], error) {
		view, err := s.changeVersion(ctx, in.Name, in.Body.FlowVersion)
		return answer(DeploymentListItem{view}, err)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "deployments-rollback", Method: http.MethodPost, Path: one + "/rollback", Domain: name, Access: writes,
		Summary: "Roll a deployment back",
		Description: "Gives it the flow version and settings it had at a deployment_version, by default the one before; the status stays. " +
			"A rollback is a new deployment_version itself, so that it can be rolled back in turn. " +
			"409 if there is nothing to go back to, or the flow version is no longer registered; 404 for an unknown deployment_version.",
		Errors: []int{404, 409},
	}, func(ctx context.Context, in *struct {
		Name string `path:"deployment_name" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"`
		Body *RollbackRequest
	}) (*output[RollbackResponse], error) {
		return answer(s.rollback(ctx, in.Name, in.Body))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "deployments-settings", Method: http.MethodPut, Path: one + "/settings", Domain: name, Access: writes,
		Summary: "Change a deployment's settings", Description: "What is absent or null stays." + raises,
		Errors: []int{400, 404, 409},
	}, func(ctx context.Context, in *struct {
		Name string `path:"deployment_name" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"`
		Body UpdateDeploymentSettingsRequest
	}) (*output[DeploymentListItem], error) {
		view, err := s.configure(ctx, in.Name, &in.Body.Settings)
		return answer(DeploymentListItem{view}, err)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "deployments-delete", Method: http.MethodDelete, Path: one, Domain: name, Access: writes,
		Summary: "Delete a deployment", Description: "With its history. Runs that it started stay.",
		Errors: []int{404},
	}, func(ctx context.Context, in *path) (*output[map[string]string], error) {
		return answer(s.remove(ctx, in.Name))
	})
}
