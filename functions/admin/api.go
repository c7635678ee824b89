package admin

import (
	"millrace/shared/account/tenant"
	"millrace/shared/platform/clock"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// TraceEntry is a trace as lists show it.
type TraceEntry struct {
	Key              string `json:"key" doc:"Names the trace in the other operations"`
	Timestamp        string `json:"timestamp"`
	RequestID        string `json:"request_id" doc:"X-Request-Id of the failed request"`
	FunctionName     string `json:"function_name"`
	ExceptionType    string `json:"exception_type"`
	ExceptionMessage string `json:"exception_message"`
	HTTPMethod       string `json:"http_method"`
	HTTPPath         string `json:"http_path"`
	OrgID            string `json:"org_id" doc:"Empty: the request failed before it acted in a workspace"`
}

// TraceListResponse is a page of traces.
type TraceListResponse struct {
	Items     []TraceEntry `json:"items"`
	NextToken string       `json:"next_token,omitempty" doc:"Where the list goes on; absent at its end"`
}

// TraceDownloadResponse is where a trace can be downloaded.
type TraceDownloadResponse struct {
	Key       string       `json:"key"`
	URL       string       `json:"url" doc:"Presigned: it needs no credential, so treat it as one"`
	ExpiresAt clock.Millis `json:"expires_at" doc:"15 minutes from now"`
}

// TraceDeleteRequest is the body of DELETE /admin/exceptions.
type TraceDeleteRequest struct {
	Keys []string `json:"keys" minItems:"1" maxItems:"100" example:"[\"_platform/exceptions/8227399232991/org_01J9ZK3W8Q0000000000000000/01J9ZK3W8Q5T6V7X8Y9Z0A1B2C.json\"]"`
}

// TraceDeleteResponse tells what was deleted.
type TraceDeleteResponse struct {
	Status string   `json:"status" enum:"deleted"`
	Keys   []string `json:"keys"`
}

type (
	listIn struct {
		Limit     int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
		NextToken string `query:"next_token" maxLength:"2048" doc:"Goes on after the previous page"`
	}
	keyIn struct {
		Key string `query:"key" required:"true" maxLength:"1024" doc:"As the list has it"`
	}
	deleteIn struct{ Body TraceDeleteRequest }
)

func routes(api *httpapi.API, d fn.Deps) {
	s := &service{table: d.Table, blob: d.Blob, clock: d.Clock, cursors: api.Cursors()}
	g := httpapi.Group{API: api, Function: name, Reads: tenant.SuperAdmin, Writes: tenant.SuperAdmin}
	httpapi.Get(g, "/admin/exceptions", s.list, "List exception traces", httpapi.Errors(400),
		httpapi.Doc("Of all workspaces, the newest first. A trace is stored when a request fails unexpectedly, and kept for 30 days; it has "+
			"neither credentials nor the request's body."))
	httpapi.Get(g, "/admin/exceptions/content", s.content, "Read an exception trace")
	httpapi.Get(g, "/admin/exceptions/download", s.download, "Get a URL to download an exception trace")
	httpapi.Delete(g, "/admin/exceptions", s.delete, "Delete exception traces",
		httpapi.Doc("Traces that do not exist are ignored. The deletion is recorded in the audit log of each trace's workspace."))
}
