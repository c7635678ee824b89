package flows

import (
	"context"
	"encoding/json"
	"io/fs"
	"net/http"
	"strings"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
	"millrace/shared/web/httpapi"
)

// MaxDraftBytes bounds a draft's content, as JSON.
const MaxDraftBytes = 3 << 20

const (
	maxDraftFiles = 1000
	maxFileName   = 512 // bytes
)

// DraftSourceRequest is the body of PUT /flows/{flow_name}/draft/source. What
// is left out stays as it is.
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
	CreatedAt    string            `json:"created_at" format:"date-time"`
	UpdatedAt    string            `json:"updated_at" format:"date-time"`
	UpdatedBy    string            `json:"updated_by"`
}

// check refuses what could not stand in an artifact.
func (in *DraftSourceRequest) check() error {
	var faults []errs.Detail
	bad := func(loc []any, input any, msg string) {
		faults = append(faults, errs.Detail{Type: "value_error", Loc: loc, Msg: msg, Input: input})
	}
	if len(in.FlowSpec) > 0 && !isObject(in.FlowSpec) {
		bad(errs.Body("flow_spec"), nil, "flow_spec is an object or null")
	}
	if len(in.Source) > maxDraftFiles {
		bad(errs.Body("source"), len(in.Source), "a draft has at most 1000 files")
		return errs.Validation(faults...)
	}
	for name := range in.Source {
		control := func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }
		if !fs.ValidPath(name) || name == "." || len(name) > maxFileName || strings.ContainsFunc(name, control) {
			bad(errs.Body("source"), name, "a file's name is a relative path without '..'")
		}
	}
	if len(faults) > 0 {
		return errs.Validation(faults...)
	}
	return nil
}

func (s *service) draftOperations(api *httpapi.API) {
	reads, writes := tenant.Needs(tenant.FlowsRead), tenant.Needs(tenant.FlowsWrite)
	httpapi.Register(api, httpapi.Operation{
		ID: "flows-draft-create", Method: http.MethodPost, Path: "/flows/{flow_name}/draft", Domain: name, Access: writes,
		Summary: "Make a draft",
		Description: "Copies the latest version's flow_spec and the text files of its artifact; for a flow that is not registered yet the draft is empty. " +
			"A draft that has been edited is kept and returned as it is; one that has not is brought up to the latest version.",
		Errors: []int{409},
	}, func(ctx context.Context, in *flowPath) (*output[DraftResponse], error) {
		return answer(s.openDraft(ctx, in.FlowName))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "flows-draft-read", Method: http.MethodGet, Path: "/flows/{flow_name}/draft/source", Domain: name, Access: reads,
		Summary: "Read the draft", Errors: []int{404},
	}, func(ctx context.Context, in *flowPath) (*output[DraftResponse], error) {
		return answer(s.readDraft(ctx, in.FlowName))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "flows-draft-write", Method: http.MethodPut, Path: "/flows/{flow_name}/draft/source", Domain: name, Access: writes,
		Summary: "Edit the draft",
		Description: "Replaces flow_spec, source or both; what the body leaves out stays. Nothing is checked but the form: a draft may be unfinished. " +
			"Up to 3 MB and 1000 files. With an etag, 409 if the draft is no longer the one that was edited.",
		Errors: []int{404, 409},
	}, func(ctx context.Context, in *struct {
		FlowName string `path:"flow_name" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"`
		Body     DraftSourceRequest
	}) (*output[DraftResponse], error) {
		return answer(s.writeDraft(ctx, in.FlowName, &in.Body))
	})
}
