package httpapi

import (
	stdjson "encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

const (
	bearerScheme = "bearer"
	errorRef     = "#/components/schemas/Error"
	description  = "Errors answer `{\"detail\": …}`: a sentence, or a list of validation entries with `type`, `loc`, `msg` and `input`. " +
		"Every answer has an `X-Request-Id`. Timestamps are RFC 3339 in UTC with milliseconds."
)

// OpenAPI is the description of the registered operations. It must not be
// changed.
func (a *API) OpenAPI() *huma.OpenAPI { return a.huma.OpenAPI() }

// JSON is the description as an OpenAPI 3.1 document, what /openapi.json
// serves. It is made once, at the first call.
func (a *API) JSON() ([]byte, error) {
	a.describeOnce.Do(func() { a.document, a.documentErr = stdjson.Marshal(a.huma.OpenAPI()) })
	return a.document, a.documentErr
}

// JSON30 is the description as an OpenAPI 3.0 document, for deployments that
// do not take 3.1.
func (a *API) JSON30() ([]byte, error) {
	data, err := a.huma.OpenAPI().Downgrade()
	if err != nil {
		return nil, err
	}
	var doc any
	if err := stdjson.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	return stdjson.Marshal(withoutNull(doc))
}

// withoutNull rewrites what 3.0 has another way than 3.1, and huma leaves:
// references that may be null, and media types of binary strings.
func withoutNull(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = withoutNull(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = withoutNull(v[k])
		}
		if _, ok := v["contentMediaType"].(string); ok {
			delete(v, "contentMediaType") // format: binary says it in 3.0
		}
		if either, ok := v["anyOf"].([]any); ok && len(either) == 2 && isNull(either[1]) {
			delete(v, "anyOf")
			v["allOf"], v["nullable"] = either[:1], true
		}
	}
	return v
}

func isNull(v any) bool {
	m, ok := v.(map[string]any)
	return ok && len(m) == 1 && m["type"] == "null"
}

// documentErrors adds the schemas that every operation's errors refer to.
func (a *API) documentErrors() {
	text := func(doc string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Description: doc} }
	schemas := a.huma.OpenAPI().Components.Schemas.Map()
	schemas["ValidationError"] = &huma.Schema{
		Type:     huma.TypeObject,
		Required: []string{"type", "loc", "msg", "input"},
		Properties: map[string]*huma.Schema{
			"type":  text("Kind of fault, e.g. missing"),
			"loc":   {Type: huma.TypeArray, Items: &huma.Schema{}, Description: "Where: path, query, header or body, then names and indexes"},
			"msg":   text("What is wrong"),
			"input": {Description: "The value at fault, null if it is absent, long or secret"},
		},
	}
	schemas["Error"] = &huma.Schema{
		Type:     huma.TypeObject,
		Required: []string{"detail"},
		Properties: map[string]*huma.Schema{"detail": {AnyOf: []*huma.Schema{
			{Type: huma.TypeString},
			{Type: huma.TypeArray, Items: &huma.Schema{Ref: "#/components/schemas/ValidationError"}},
		}}},
	}
	a.names.reserve("Error", "ValidationError")
}

// Schema makes the error's schema the one of every operation's errors.
func (*answered) Schema(huma.Registry) *huma.Schema { return &huma.Schema{Ref: errorRef} }

// describe is the operation as huma takes it.
func (a *API) describe(op *Operation) huma.Operation {
	h := huma.Operation{
		OperationID: op.ID, Method: op.Method, Path: op.Path, Summary: op.Summary,
		Description:   strings.TrimSpace(op.Description + "\n\n" + accessText(op)),
		DefaultStatus: op.Status, Hidden: op.Hidden, SkipValidateBody: true,
		RequestBody: &huma.RequestBody{},
		// The frame has read the body: a deadline set now would only cut off
		// the connection of a long answer.
		BodyReadTimeout: -1,
		Responses:       map[string]*huma.Response{},
		Extensions:      map[string]any{"x-permission": op.Access.String(), "x-api-key-scopes": op.Access.Scopes()},
	}
	if op.Domain != "" {
		h.Tags = []string{op.Domain}
	}
	if !op.Access.IsPublic() {
		h.Security = []map[string][]string{{bearerScheme: {}}}
	}
	if op.Output != nil {
		status := strconv.Itoa(max(op.Status, http.StatusOK))
		schema := a.huma.OpenAPI().Components.Schemas.Schema(op.Output, true, "Response")
		h.Responses[status] = &huma.Response{
			Description: http.StatusText(max(op.Status, http.StatusOK)),
			Content:     map[string]*huma.MediaType{"application/json": {Schema: schema}},
		}
	}
	return h
}

// accessText says in words who may call an operation.
func accessText(op *Operation) string {
	var text string
	switch access := op.Access; {
	case access.IsPublic():
		return "Needs no credential."
	case access.Permission() != "":
		text = "Requires the permission `" + access.String() + "`."
	default:
		text = map[string]string{
			"authenticated": "Requires a valid credential.",
			"session_only":  "Requires a signed-in user; API keys are refused.",
			"super_admin":   "Requires a platform administrator.",
		}[access.String()]
	}
	if scopes := op.Access.Scopes(); scopes != "" && scopes != string(op.Access.Permission()) {
		text += " API keys need the scopes `" + scopes + "`."
	}
	return text
}

// finish completes what huma made of an operation: the body's shape, and the
// errors the frame answers. huma itself must not ask for the body, because the
// frame reads it.
func (a *API) finish(op *Operation, h *huma.Operation, b *body) {
	required := h.RequestBody.Required && !b.raw
	h.RequestBody.Required = false
	if b.field != nil && !b.raw {
		b.required = required
		b.shape = a.shapes.shape(b.of, h.RequestBody.Content["application/json"].Schema)
	}
	documented := a.documented(op)
	if documented == nil {
		return
	}
	documented.RequestBody = nil
	if b.field != nil {
		body := *h.RequestBody
		body.Required = required
		documented.RequestBody = &body
	}
	for _, status := range a.errorsOf(op, documented) {
		code := strconv.Itoa(status)
		if documented.Responses[code] != nil {
			continue
		}
		documented.Responses[code] = &huma.Response{
			Description: http.StatusText(status),
			Content:     map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Ref: errorRef}}},
		}
	}
	delete(documented.Responses, "default")
}

// documented replaces the operation in the description by a copy that may be
// changed without changing how it is served; nil for a hidden one.
func (a *API) documented(op *Operation) *huma.Operation {
	item := a.huma.OpenAPI().Paths[op.Path]
	if op.Hidden || item == nil {
		return nil
	}
	for _, slot := range []**huma.Operation{&item.Get, &item.Post, &item.Put, &item.Patch, &item.Delete} {
		if *slot != nil && (*slot).Method == op.Method {
			copied := **slot
			*slot = &copied
			return &copied
		}
	}
	return nil
}

// errorsOf lists the statuses of an operation's errors.
func (a *API) errorsOf(op *Operation, h *huma.Operation) []int {
	out := slices.Clone(op.Errors)
	if !op.Access.IsPublic() {
		out = append(out, http.StatusUnauthorized, http.StatusForbidden)
	}
	if strings.Contains(op.Path, "{") {
		out = append(out, http.StatusNotFound)
	}
	if h.RequestBody != nil {
		out = append(out, http.StatusRequestEntityTooLarge)
	}
	if h.RequestBody != nil || len(h.Parameters) > 0 {
		out = append(out, http.StatusUnprocessableEntity)
	}
	return append(out, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable)
}
