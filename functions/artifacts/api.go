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
	ContentType *string `json:"content_type,omitempty" maxLength:"128" doc:"application/zip by default"`
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
	UploadURL  string `json:"upload_url" doc:"PUT the part's bytes here, without credentials; the answer's ETag belongs to the completion"`
}

// CompletedPart is a part as the object store acknowledged it.
type CompletedPart struct {
	PartNumber int    `json:"part_number" minimum:"1" maximum:"10000" example:"1"`
	ETag       string `json:"etag" minLength:"1" maxLength:"256" example:"9b2cf535f27731c974343645a3985328" doc:"The ETag header of the part's answer, with or without quotes"`
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
	DefaultExecutor *string           `json:"default_executor,omitempty" maxLength:"64" doc:"One of GET /backends; another is 400"`
	DepPackageSlugs []string          `json:"dep_package_slugs,omitempty" doc:"Up to 50"`
	Environment     *string           `json:"environment,omitempty" is:"name" doc:"default, unless it is named; one that is not there is made"`
	FlowSpec        flowSpec          `json:"flow_spec,omitempty" doc:"The DAG; without it flow_spec.json at the root of the zip is read"`
	Namespace       *string           `json:"namespace,omitempty" maxLength:"128"`
	Schedule        *string           `json:"schedule,omitempty" maxLength:"256" doc:"A cron expression of the deployment's own schedule, as in POST /deployments; empty: it has none; null: it stays"`
	Timezone        *string           `json:"timezone,omitempty" maxLength:"64" doc:"IANA name, of schedule; empty: UTC; null: it stays"`
	ExecutionMode   *string           `json:"execution_mode,omitempty" maxLength:"64" doc:"nano (default), micro, small, medium, large or xlarge; another is 400"`
	Status          *string           `json:"status,omitempty" enum:"ACTIVE,INACTIVE" doc:"ACTIVE by default"`
	Tags            map[string]string `json:"tags,omitempty" doc:"Up to 50"`
}

// CompleteUploadResponse is the registered version and its deployment.
type CompleteUploadResponse struct {
	ArtifactStoreURI  string `json:"artifact_store_uri"`
	FlowName          string `json:"flow_name"`
	FlowVersion       string `json:"flow_version"`
	DeploymentName    string `json:"deployment_name"`
	CodeHash          string `json:"code_hash"`
	DeploymentVersion int    `json:"deployment_version"`
	Environment       string `json:"environment"`
	// EnvironmentCreated tells what the deployment made besides.
	EnvironmentCreated bool    `json:"environment_created,omitempty" doc:"The environment was made for this deployment"`
	ScheduleID         *string `json:"schedule_id,omitempty" doc:"The deployment's own schedule; absent: it has none"`
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
			"While an upload of the same flow version and size is open and its URLs are valid, the same identifiers come back with fresh URLs: parts that were sent need not be sent again. "+
			"Otherwise, and when a completion has put the parts together and was refused, an upload of the version that is still open is aborted first."))
	httpapi.Post(g, "/artifacts/complete", s.complete, "Complete an upload", httpapi.Errors(400, 404, 409),
		httpapi.Doc("Puts the parts together, checks the zip, registers the flow version and makes or changes the deployment, all or nothing. "+
			"Of a deployment that is there already, what the request leaves out stays. "+
			"Repeating it gives the same answer; with another request for a completed upload it is 409. "+
			"A version that is registered already is deployed as it is if its spec and code are the same, else 409. "+
			"An entrypoint whose module no file of the zip is, seen from the zip's root, is 422 and tells which files are near it. "+
			"A zip with unsafe names, links or an expansion over 1 GB or 100 times is 422 and is removed, as is one whose size is not what was announced. "+
			"A schedule whose runs would be refused, for a required parameter that is missing, is 422. "+
			"An upload of another workspace is 403, an unsupported runtime 400."))
	httpapi.Post(g, "/artifacts/abort", s.abort, "Abort an upload", httpapi.Errors(404, 409),
		httpapi.Doc("Drops the upload and its parts; again is fine. A completed upload is 409, one of another workspace 403."))
}
