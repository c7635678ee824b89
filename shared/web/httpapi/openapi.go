package httpapi

import (
	"cmp"
	stdjson "encoding/json"
	"net/http"
	"reflect"
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

// OpenAPI returns the description of the registered operations, which callers
// must not modify.
func (a *API) OpenAPI() *huma.OpenAPI { return a.document }

// JSON returns the description as an OpenAPI 3.1 document. It is built once, on
// the first call, from the operations that are not hidden and their schemas.
func (a *API) JSON() ([]byte, error) {
	a.writeOnce.Do(func() {
		var doc *huma.OpenAPI
		if doc, a.writeErr = a.published(); a.writeErr == nil {
			a.written, a.writeErr = stdjson.Marshal(doc)
		}
	})
	return a.written, a.writeErr
}

// JSON30 returns the description as an OpenAPI 3.0 document, for tools that do
// not support 3.1.
func (a *API) JSON30() ([]byte, error) {
	doc, err := a.published()
	if err != nil {
		return nil, err
	}
	info, license := *doc.Info, *doc.Info.License
	license.Identifier = "" // 3.0 has no such field
	info.License, doc.Info = &license, &info
	data, err := doc.Downgrade()
	if err != nil {
		return nil, err
	}
	var old any
	if err := stdjson.Unmarshal(data, &old); err != nil {
		return nil, err
	}
	return stdjson.Marshal(withoutNull(old))
}

// withoutNull rewrites 3.1 constructs that huma does not convert to 3.0:
// nullable references and media types of binary strings.
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
			delete(v, "contentMediaType") // format: binary says so in 3.0
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

// documentErrors adds the schemas of error responses.
func (a *API) documentErrors() {
	text := func(doc string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Description: doc} }
	schemas := a.document.Components.Schemas.Map()
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

// describe adds the operation to the description, unless it is hidden, and
// compiles the shape of its body.
func (a *API) describe(op *Operation, params []param, b *body, out reflect.Type) {
	h := &huma.Operation{
		OperationID: op.ID, Method: op.Method, Path: op.Path, Summary: op.Summary, Tags: []string{cmp.Or(op.Tag, op.Function)},
		Description: strings.TrimSpace(op.Description + "\n\n" + accessText(op)),
		Extensions:  map[string]any{"x-permission": op.Access.String(), "x-api-key-scopes": op.Access.Scopes()},
		Security:    []map[string][]string{},
	}
	if !op.Access.IsPublic() {
		h.Security = []map[string][]string{{bearerScheme: {}}}
	}
	for _, p := range params {
		if !p.hidden {
			h.Parameters = append(h.Parameters, &huma.Param{
				Name: p.name, In: p.in, Required: p.required, Description: p.doc, Schema: p.schema,
			})
		}
	}
	if b.field != nil {
		h.RequestBody = a.requestBody(op, b)
	}
	h.Responses = a.responses(op, h, out)
	if !op.Hidden {
		a.document.AddOperation(h)
	}
}

// requestBody describes a body with an example, and compiles its shape.
func (a *API) requestBody(op *Operation, b *body) *huma.RequestBody {
	if b.raw {
		schema := &huma.Schema{Type: huma.TypeString, Format: "binary"}
		return &huma.RequestBody{Content: map[string]*huma.MediaType{"application/octet-stream": {Schema: schema}}}
	}
	schema := a.document.Components.Schemas.Schema(b.of, true, op.ID+"Request")
	b.required = b.of.Kind() != reflect.Pointer
	b.shape = a.shapes.shape(b.of, schema)
	media := &huma.MediaType{Schema: schema, Example: a.exampleOf(op, b, schema)}
	return &huma.RequestBody{Required: b.required, Content: map[string]*huma.MediaType{"application/json": media}}
}

// responses describes the responses: the operation's own, and its errors.
func (a *API) responses(op *Operation, h *huma.Operation, out reflect.Type) map[string]*huma.Response {
	success := &huma.Response{Description: http.StatusText(op.Status)}
	var wait reflect.Type
	switch s := reflect.Zero(out).Interface().(type) {
	case streamed:
		out = s.body()
	case pending:
		out, wait = s.bodies()
	}
	if out != reflect.TypeFor[None]() && !out.Implements(reflect.TypeFor[responder]()) {
		schema := a.document.Components.Schemas.Schema(out, true, op.ID+"Response")
		success.Content = map[string]*huma.MediaType{"application/json": {Schema: schema}}
	}
	all := map[string]*huma.Response{strconv.Itoa(op.Status): success}
	if wait != nil {
		schema := a.document.Components.Schemas.Schema(wait, true, op.ID+"Pending")
		all[strconv.Itoa(http.StatusAccepted)] = &huma.Response{
			Description: http.StatusText(http.StatusAccepted), Content: map[string]*huma.MediaType{"application/json": {Schema: schema}},
		}
	}
	for _, status := range errorsOf(op, h) {
		if status < http.StatusBadRequest {
			all[strconv.Itoa(status)] = &huma.Response{
				Description: http.StatusText(status),
				Headers:     map[string]*huma.Param{"Location": {Schema: &huma.Schema{Type: huma.TypeString}}},
			}
			continue
		}
		all[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status),
			Content:     map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Ref: errorRef}}},
		}
	}
	return all
}

// accessText describes in words who may call an operation.
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

// errorsOf returns the error statuses of an operation.
func errorsOf(op *Operation, h *huma.Operation) []int {
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
	// Unknown parameters and bodies are rejected, too.
	out = append(out, http.StatusUnprocessableEntity)
	return append(out, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable)
}
