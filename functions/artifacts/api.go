package artifacts

import (
	"millrace/shared/account/tenant"
	"millrace/shared/run/flowspec"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// flowSpec is a flow_spec, which the registry parses.
type flowSpec = httpapi.Raw[flowspec.Spec]

// InitiateUploadRequest is the body of POST /artifacts/initiate.
type InitiateUploadRequest struct {
	FlowName    string  `json:"flow_name" is:"name" example:"daily-sales"`
	FlowVersion string  `json:"flow_version" is:"name" example:"7"`
	SizeBytes   int64   `json:"size_bytes" minimum:"1" maximum:"262144000" example:"48213" doc:"Of the whole zip; at most 250 MB"`
	FileName    *string `json:"file_name,omitempty" maxLength:"255" doc:"Kept for the audit log"`
	ContentType *string `json:"content_type,omitempty" pattern:"^([A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(; ?[A-Za-z0-9_.-]+=[A-Za-z0-9_.+-]+)*)?$" maxLength:"128" example:"application/zip" doc:"A media type, application/zip by default. The object store keeps it as a header"`
}

// InitiateUploadResponse has the URLs to send the parts to.
type InitiateUploadResponse struct {
	UploadID    string       `json:"upload_id"`
	ArtifactKey string       `json:"artifact_key"`
	PartSize    int64        `json:"part_size" doc:"Bytes of every part but the last"`
	Parts       []UploadPart `json:"parts"`
	ExpiresAt   string       `json:"expires_at" format:"date-time" doc:"Until when the URLs are valid"`
}

// UploadPart is the URL of one part.
type UploadPart struct {
	PartNumber int    `json:"part_number"`
	UploadURL  string `json:"upload_url" doc:"PUT the part's bytes here, without credentials; the ETag of the response is needed for the completion"`
}

// CompletedPart is a part as the object store acknowledged it.
type CompletedPart struct {
	PartNumber int    `json:"part_number" minimum:"1" maximum:"10000" example:"1"`
	ETag       string `json:"etag" minLength:"1" maxLength:"256" example:"9b2cf535f27731c974343645a3985328" doc:"The ETag header of the part's response, with or without quotes"`
}

// CompleteUploadRequest is the body of POST /artifacts/complete.
type CompleteUploadRequest struct {
	UploadID        string            `json:"upload_id" minLength:"1" maxLength:"1024" example:"2~Vh1kqQ0fV3R9x"`
	ArtifactKey     string            `json:"artifact_key" minLength:"1" maxLength:"1024" example:"org_01K5SAMPLE0000000000000001/artifacts/daily-sales/7/01K5SAMPLE0000000000000002.zip"`
	Parts           []CompletedPart   `json:"parts" minItems:"1" maxItems:"10000"`
	DeploymentName  string            `json:"deployment_name" is:"name" example:"daily-sales"`
	FlowName        string            `json:"flow_name" is:"name" example:"daily-sales"`
	FlowVersion     string            `json:"flow_version" is:"name" example:"7"`
	CodeHash        *string           `json:"code_hash,omitempty" maxLength:"128" doc:"Identifies the code; by default the SHA-256 of the zip"`
	DefaultExecutor *string           `json:"default_executor,omitempty" maxLength:"64" doc:"One of GET /backends; any other value is 400"`
	DepPackageSlugs []string          `json:"dep_package_slugs,omitempty" doc:"Up to 50"`
	Environment     *string           `json:"environment,omitempty" is:"name" doc:"The default environment if absent; created if it does not exist"`
	FlowSpec        flowSpec          `json:"flow_spec,omitempty" doc:"The DAG; without it flow_spec.json at the root of the zip is read"`
	Namespace       *string           `json:"namespace,omitempty" maxLength:"128"`
	Schedule        *string           `json:"schedule,omitempty" maxLength:"256" doc:"A cron expression of the deployment's own schedule, as in POST /deployments; empty removes it, null leaves it unchanged"`
	Timezone        *string           `json:"timezone,omitempty" maxLength:"64" doc:"IANA name for schedule; empty is UTC, null leaves it unchanged"`
	ExecutionMode   *string           `json:"execution_mode,omitempty" maxLength:"64" doc:"nano (default), micro, small, medium, large or xlarge; any other value is 400"`
	Status          *string           `json:"status,omitempty" enum:"ACTIVE,INACTIVE" doc:"ACTIVE by default"`
	Tags            map[string]string `json:"tags,omitempty" doc:"Up to 50"`
}

// CompleteUploadResponse is the registered version and its deployment.
type CompleteUploadResponse struct {
	ArtifactStoreURI   string  `json:"artifact_store_uri"`
	FlowName           string  `json:"flow_name"`
	FlowVersion        string  `json:"flow_version"`
	DeploymentName     string  `json:"deployment_name"`
	CodeHash           string  `json:"code_hash"`
	DeploymentVersion  int     `json:"deployment_version"`
	Environment        string  `json:"environment"`
	EnvironmentCreated bool    `json:"environment_created,omitempty" doc:"The environment was created for this deployment"`
	ScheduleID         *string `json:"schedule_id,omitempty" doc:"The deployment's own schedule; absent if it has none"`
	NextRunEpoch       *int64  `json:"next_run_epoch,omitempty" doc:"Unix seconds of its next run"`
}

// AbortUploadRequest is the body of POST /artifacts/abort.
type AbortUploadRequest struct {
	UploadID    string `json:"upload_id" minLength:"1" maxLength:"1024" example:"2~Vh1kqQ0fV3R9x"`
	ArtifactKey string `json:"artifact_key" minLength:"1" maxLength:"1024" example:"org_01K5SAMPLE0000000000000001/artifacts/daily-sales/7/01K5SAMPLE0000000000000002.zip"`
}

type (
	initiateIn struct{ Body InitiateUploadRequest }
	completeIn struct{ Body CompleteUploadRequest }
	abortIn    struct{ Body AbortUploadRequest }
)

func routes(api *httpapi.API, d fn.Deps) {
	s := &service{store: d.Registry()}
	g := httpapi.Group{API: api, Function: name, Writes: tenant.Needs(tenant.FlowsWrite)}
	httpapi.Post(g, "/artifacts/initiate", s.initiate, "Begin or resume an upload", httpapi.Errors(409),
		httpapi.Doc("Cut the zip into parts of part_size bytes, PUT each to its URL and complete the upload. "+
			"While an upload of the same flow version and size is open and its URLs are valid, the response has the same identifiers and new URLs: parts that were sent need not be sent again. "+
			"Otherwise, or if a completion assembled the parts and was rejected, an open upload of the version is aborted first."))
	httpapi.Post(g, "/artifacts/complete", s.complete, "Complete an upload", httpapi.Errors(400, 404, 409),
		httpapi.Doc("Assembles the parts, checks the zip, registers the flow version and creates or updates the deployment, all or nothing. "+
			"Fields of an existing deployment that the request does not set remain unchanged. "+
			"A repeated request gets the same response; another request for a completed upload is 409. "+
			"A version that is already registered is deployed if its spec and code are the same, else the request is 409. "+
			"An entrypoint whose module is not in the zip, relative to its root, is 422; the error names similar files. "+
			"A zip with unsafe names or links, or that expands to over 1 GB or 100 times its size, is 422 and deleted, as is one whose size differs from size_bytes. "+
			"A schedule whose runs would be rejected because they lack a required parameter is 422. "+
			"An upload of another workspace is 403, an unsupported runtime 400."))
	httpapi.Post(g, "/artifacts/abort", s.abort, "Abort an upload", httpapi.Errors(404, 409),
		httpapi.Doc("Deletes the upload and its parts; it can be repeated. A completed upload is 409, one of another workspace 403."))
}
