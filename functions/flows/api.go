package flows

import (
	"context"
	"encoding/json"
	"net/http"

	"millrace/shared/account/tenant"
	"millrace/shared/run/registry"
	"millrace/shared/web/httpapi"
)

// FlowRegisterRequest is the body of POST /flows.
type FlowRegisterRequest struct {
	FlowName         string            `json:"flow_name" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$" doc:"1 to 128 letters, digits, '.', '_' and '-'"`
	FlowVersion      string            `json:"flow_version" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$" doc:"A string, e.g. 1, 2.0.1 or a commit; latest, versions, draft and backfill are reserved"`
	FlowSpec         json.RawMessage   `json:"flow_spec" doc:"The DAG: parameters (JSON Schema), timeout_secs, tasks, on_failure"`
	ArtifactStoreURI *string           `json:"artifact_store_uri,omitempty" maxLength:"1024" doc:"Uploaded code; required if the flow has Python tasks"`
	CodeHash         *string           `json:"code_hash,omitempty" maxLength:"128" doc:"Identifies the code: a version registered again with the same hash has the same code"`
	Description      *string           `json:"description,omitempty" maxLength:"4096"`
	Tags             map[string]string `json:"tags,omitempty" doc:"Up to 50"`
	DefaultExecutor  *string           `json:"default_executor,omitempty" maxLength:"64" doc:"One of GET /backends, python by default; another runtime is 400"`
	ExecutionMode    *string           `json:"execution_mode,omitempty" maxLength:"64" doc:"nano (default), micro, small, medium, large or xlarge; another is 400"`
}

// FlowRegisterResponse is a version as it was registered.
type FlowRegisterResponse struct{ registry.VersionView }

// FlowDetailResponse is a version with its flow_spec.
type FlowDetailResponse struct {
	registry.VersionView
	IsLatest bool            `json:"is_latest"`
	FlowSpec json.RawMessage `json:"flow_spec" doc:"As it was registered, in canonical form: keys sorted"`
	Tasks    []TaskSummary   `json:"tasks"`
}

// TaskSummary is one task of a flow.
type TaskSummary struct {
	Name        string   `json:"name"`
	Type        string   `json:"type"`
	DependsOn   []string `json:"depends_on"`
	TriggerRule string   `json:"trigger_rule"`
	Mapped      bool     `json:"mapped" doc:"Runs once for each element of a list"`
}

// FlowVersionItem is a version in a list.
type FlowVersionItem struct {
	registry.VersionView
	IsLatest bool `json:"is_latest"`
}

// FlowListResponse is a page of flows.
type FlowListResponse struct {
	Items     []registry.FlowView `json:"items"`
	NextToken string              `json:"next_token,omitempty" doc:"Absent at the end; a page without items but with a token is not the end"`
}

// FlowVersionListResponse lists a flow's versions.
type FlowVersionListResponse struct {
	Items []FlowVersionItem `json:"items"`
}

// DeletedFlow tells what was deleted.
type DeletedFlow struct {
	Status          string `json:"status"`
	FlowName        string `json:"flow_name"`
	DeletedVersions int    `json:"deleted_versions"`
}

type flowPath struct {
	FlowName string `path:"flow_name" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"`
}

type versionPath struct {
	FlowName    string `path:"flow_name" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"`
	FlowVersion string `path:"flow_version" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"`
}

type listQuery struct {
	Limit       int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	NextToken   string `query:"next_token" maxLength:"4096"`
	Environment string `query:"environment" pattern:"^([A-Za-z0-9][A-Za-z0-9._-]{0,127})?$" doc:"Only flows that have a deployment in this environment"`
}

type output[T any] struct{ Body T }

// answer makes a handler's output of a service's result.
func answer[T any](body T, err error) (*output[T], error) {
	if err != nil {
		return nil, err
	}
	return &output[T]{Body: body}, nil
}

const listID = "flows-list"

func (s *service) registerOperations(api *httpapi.API) {
	reads, writes := tenant.Needs(tenant.FlowsRead), tenant.Needs(tenant.FlowsWrite)
	httpapi.Register(api, httpapi.Operation{
		ID: "flows-register", Method: http.MethodPost, Path: "/flows", Domain: name, Access: writes,
		Summary: "Register a flow version",
		Description: "Checks everything that can be checked before a run, one 422 entry per fault. " +
			"Registering a version again with the same content gives the same answer and changes nothing; with other content it is 409. " +
			"A flow with Python tasks needs an uploaded artifact (artifact_store_uri), else 422; an artifact of another workspace is 403. " +
			"An unsupported runtime is 400. The version registered last becomes the latest. " +
			"What its expressions and its schema cost to compile is bounded: beyond that it is 422, and names the place and the limit.",
		Errors: []int{400, 409},
	}, func(ctx context.Context, in *struct{ Body FlowRegisterRequest }) (*output[FlowRegisterResponse], error) {
		return answer(s.register(ctx, &in.Body))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: listID, Method: http.MethodGet, Path: "/flows", Domain: name, Access: reads,
		Summary: "List flows", Description: "In order of their names.", Errors: []int{400},
	}, func(ctx context.Context, in *listQuery) (*output[FlowListResponse], error) {
		return answer(s.list(ctx, in))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "flows-delete", Method: http.MethodDelete, Path: "/flows/{flow_name}", Domain: name, Access: writes,
		Summary: "Delete a flow",
		Description: "Deletes all versions and the draft. Runs keep their history, and those in flight go on. " +
			"While enabled deployments, schedules or sensors use the flow it is 409, and names them. " +
			"A flow registered under the name afterwards is a new one.",
		Errors: []int{404, 409},
	}, func(ctx context.Context, in *flowPath) (*output[DeletedFlow], error) {
		return answer(s.remove(ctx, in.FlowName))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "flows-latest", Method: http.MethodGet, Path: "/flows/{flow_name}/latest", Domain: name, Access: reads,
		Summary: "Get the version registered last", Errors: []int{404},
	}, func(ctx context.Context, in *flowPath) (*output[FlowDetailResponse], error) {
		return answer(s.detail(ctx, in.FlowName, ""))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "flows-versions", Method: http.MethodGet, Path: "/flows/{flow_name}/versions", Domain: name, Access: reads,
		Summary: "List a flow's versions", Description: "Newest registration first.", Errors: []int{404},
	}, func(ctx context.Context, in *flowPath) (*output[FlowVersionListResponse], error) {
		return answer(s.versions(ctx, in.FlowName))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "flows-version", Method: http.MethodGet, Path: "/flows/{flow_name}/{flow_version}", Domain: name, Access: reads,
		Summary: "Get one version", Errors: []int{404},
	}, func(ctx context.Context, in *versionPath) (*output[FlowDetailResponse], error) {
		return answer(s.detail(ctx, in.FlowName, in.FlowVersion))
	})
}
