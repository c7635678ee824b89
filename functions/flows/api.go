package flows

import (
	"encoding/json"

	"millrace/shared/account/tenant"
	"millrace/shared/kit/record"
	"millrace/shared/platform/clock"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/registry"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// flowSpec is a flow_spec, which the registry parses.
type flowSpec = httpapi.Raw[flowspec.Spec]

// FlowRegisterRequest is the body of POST /flows.
type FlowRegisterRequest struct {
	FlowName         string            `json:"flow_name" is:"name" doc:"1 to 128 letters, digits, '.', '_' and '-'"`
	FlowVersion      string            `json:"flow_version" is:"name" doc:"A string, e.g. 1, 2.0.1 or a commit; latest, versions, draft and backfill are reserved"`
	FlowSpec         flowSpec          `json:"flow_spec" doc:"The DAG"`
	ArtifactStoreURI *string           `json:"artifact_store_uri,omitempty" maxLength:"1024" doc:"Uploaded code; required if the flow has Python tasks"`
	CodeHash         *string           `json:"code_hash,omitempty" maxLength:"128" doc:"Identifies the code: a version registered again with the same hash has the same code"`
	Description      *string           `json:"description,omitempty" maxLength:"4096"`
	Tags             map[string]string `json:"tags,omitempty" doc:"Up to 50"`
	DefaultExecutor  *string           `json:"default_executor,omitempty" maxLength:"64" doc:"One of GET /backends, python by default; another runtime is 400"`
	ExecutionMode    *string           `json:"execution_mode,omitempty" maxLength:"64" doc:"nano (default), micro, small, medium, large or xlarge; another is 400"`
	DryRun           bool              `json:"dry_run,omitempty" doc:"Checks the version and answers what would be registered, but stores nothing; code that is not uploaded yet is not checked"`

	// A deployment to be checked with it, as the completion of an upload makes one.
	DeploymentName *string `json:"deployment_name,omitempty" is:"name" doc:"With dry_run: checks a deployment of the version, too, with the following settings; what is absent is as it is, or the default"`
	Environment    *string `json:"environment,omitempty" is:"name" doc:"Of the deployment"`
	Schedule       *string `json:"schedule,omitempty" maxLength:"256" doc:"Cron expression of the deployment"`
	Timezone       *string `json:"timezone,omitempty" maxLength:"64" doc:"IANA name for schedule"`
}

// FlowRegisterResponse is a version as it was registered.
type FlowRegisterResponse struct {
	registry.VersionView
	DryRun     bool               `json:"dry_run,omitempty" doc:"Nothing was stored"`
	Deployment *PlannedDeployment `json:"deployment,omitempty" doc:"With deployment_name: what it would be"`
}

// PlannedDeployment is a deployment that was checked.
type PlannedDeployment struct {
	DeploymentName     string `json:"deployment_name"`
	DeploymentVersion  int    `json:"deployment_version"`
	Environment        string `json:"environment"`
	EnvironmentCreated bool   `json:"environment_created,omitempty" doc:"The environment would be made for it"`
	NextRunEpoch       *int64 `json:"next_run_epoch,omitempty" doc:"Unix seconds of the next run of its own schedule"`
}

// FlowDetailResponse is a version with its flow_spec.
type FlowDetailResponse struct {
	registry.VersionView
	IsLatest bool          `json:"is_latest"`
	FlowSpec flowSpec      `json:"flow_spec" doc:"As it was registered, in canonical form: keys sorted"`
	Tasks    []TaskSummary `json:"tasks"`
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

// DeletedFlow names what was deleted.
type DeletedFlow struct {
	Status          string `json:"status"`
	FlowName        string `json:"flow_name"`
	DeletedVersions int    `json:"deleted_versions"`
}

// DraftSourceRequest is the body of PUT /flows/{flow_name}/draft/source. Absent
// fields are not changed.
type DraftSourceRequest struct {
	FlowSpec json.RawMessage   `json:"flow_spec,omitempty" doc:"The flow_spec under edit: an object, complete or not, or null"`
	Source   map[string]string `json:"source,omitempty" doc:"All source files: text by file name, e.g. flow.py"`
	ETag     *string           `json:"etag,omitempty" maxLength:"64" doc:"Of the draft that was edited: if it has changed since, the answer is 409"`
}

// DraftResponse is a flow's draft.
type DraftResponse struct {
	FlowName     string            `json:"flow_name"`
	BaseVersion  *string           `json:"base_version" doc:"The version it was copied from, null if there was none"`
	Edited       bool              `json:"edited" doc:"Differs from what was copied"`
	FlowSpec     json.RawMessage   `json:"flow_spec"`
	Source       map[string]string `json:"source" doc:"Text by file name"`
	OmittedFiles []string          `json:"omitted_files" doc:"Files of the artifact that are not text or too large to edit"`
	ETag         string            `json:"etag" doc:"Changes with the content"`
	CreatedAt    clock.Millis      `json:"created_at"`
	UpdatedAt    clock.Millis      `json:"updated_at"`
	UpdatedBy    string            `json:"updated_by"`
}

type flowPath struct {
	FlowName string `path:"flow_name" is:"name"`
}

type versionPath struct {
	FlowName    string `path:"flow_name" is:"name"`
	FlowVersion string `path:"flow_version" is:"name"`
}

type listQuery struct {
	Limit       int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	NextToken   string `query:"next_token" maxLength:"4096"`
	Environment string `query:"environment" is:"name or empty" doc:"Only flows that have a deployment in this environment"`
}

type registerIn struct{ Body FlowRegisterRequest }

// Examples of request bodies.
const (
	registerExample = `{
  "flow_name": "daily-sales",
  "flow_version": "7",
  "description": "Counts the paid orders of a day",
  "flow_spec": {
    "parameters": {
      "type": "object",
      "properties": {"day": {"type": "string", "format": "date"}},
      "required": ["day"]
    },
    "timeout_secs": 600,
    "tasks": [
      {"name": "orders", "type": "http", "retries": 2, "timeout_secs": 30,
       "config": {"url": "https://shop.example/orders?day=${{ params.day }}"}},
      {"name": "paid", "type": "transform", "depends_on": ["orders"],
       "config": {"expression": "tasks.orders.output.body.filter(o, o.paid)"}},
      {"name": "report", "type": "transform", "depends_on": ["paid"], "condition": "size(tasks.paid.output) > 0",
       "config": {"expression": "{'day': params.day, 'paid': size(tasks.paid.output)}"}}
    ],
    "result": "tasks.report.output"
  },
  "tags": {"team": "sales"}
}`
	draftExample = `{
  "flow_spec": {"tasks": [{"name": "total", "type": "python", "entrypoint": "flow:total"}]},
  "source": {"flow.py": "def total():\n    return 42\n"}
}`
)

type draftIn struct {
	FlowName string `path:"flow_name" is:"name"`
	Body     DraftSourceRequest
}

func routes(api *httpapi.API, d fn.Deps) {
	s := &service{
		store:   d.Registry(),
		drafts:  record.New[draft](drafts, d.Records()),
		cursors: api.Cursors(),
	}
	g := httpapi.Group{API: api, Function: name, Reads: tenant.Needs(tenant.FlowsRead), Writes: tenant.Needs(tenant.FlowsWrite)}
	httpapi.Post(g, "/flows", s.register, "Register a flow version", httpapi.Errors(400, 409), httpapi.Example(registerExample),
		httpapi.Doc("Checks everything that can be checked before a run, one 422 entry per fault. "+
			"Registering a version again with the same content gives the same answer and changes nothing; with other content it is 409. "+
			"A flow with Python tasks needs an uploaded artifact (artifact_store_uri), else 422; an artifact of another workspace is 403. "+
			"An unsupported runtime is 400. The version registered last becomes the latest. "+
			"What its expressions and its schema cost to compile is bounded: beyond that it is 422, and names the place and the limit."))
	httpapi.Get(g, "/flows", s.list, "List flows", httpapi.Errors(400), httpapi.Doc("In order of their names."))
	httpapi.Delete(g, "/flows/{flow_name}", s.delete, "Delete a flow", httpapi.Errors(409),
		httpapi.Doc("Deletes all versions and the draft. Runs keep their history, and those in flight go on. "+
			"While enabled deployments, schedules or sensors use the flow it is 409, and names them. "+
			"A flow registered under the name afterwards is a new one."))
	httpapi.Get(g, "/flows/{flow_name}/latest", s.latest, "Get the version registered last")
	httpapi.Get(g, "/flows/{flow_name}/versions", s.versions, "List a flow's versions", httpapi.Doc("Newest registration first."))
	httpapi.Get(g, "/flows/{flow_name}/{flow_version}", s.version, "Get one version")

	httpapi.Post(g, "/flows/{flow_name}/draft", s.draftCreate, "Make a draft", httpapi.Errors(409),
		httpapi.Doc("Copies the latest version's flow_spec and the text files of its artifact; for a flow that is not registered yet the draft is empty. "+
			"A draft that has been edited is kept and returned as it is; one that has not is brought up to the latest version."))
	httpapi.Get(g, "/flows/{flow_name}/draft/source", s.draftRead, "Read the draft")
	httpapi.Put(g, "/flows/{flow_name}/draft/source", s.draftWrite, "Edit the draft", httpapi.Errors(409), httpapi.Example(draftExample),
		httpapi.Doc("Replaces flow_spec, source or both; what the body leaves out stays. Nothing is checked but the form: a draft may be unfinished. "+
			"Up to 3 MB and 1000 files. With an etag, 409 if the draft is no longer the one that was edited."))
}
