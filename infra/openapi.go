package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"millrace/functions/catalog"
	"millrace/shared/run/sandbox/invoke"
	"millrace/shared/web/fn"
	"millrace/shared/web/gateway"
	"millrace/shared/web/httpapi"
)

// API Gateway's limits of a function's response time.
const (
	bufferedLimit = 29 * time.Second
	streamedLimit = 15 * time.Minute
)

// route is an operation of the API as the gateway needs it.
type route struct {
	catalog.Operation
	timeout  time.Duration  // of the function
	streams  bool           // the function streams its responses
	document map[string]any // the operation in OpenAPI; empty if it is not described
}

// routes are the operations of the catalog, except those at URLs of their
// functions.
type routes struct {
	info      map[string]any
	list      []route
	unmatched route // to the function of requests that match no operation; the zero route if there is none
}

// newRoutes reads the operations from the generated description, and fails if
// it cannot be generated.
func newRoutes(specs []fn.Spec) (routes, error) {
	data, err := catalog.API(specs, httpapi.Config{Title: "Millrace"}).JSON30()
	if err != nil {
		return routes{}, fmt.Errorf("describe the API: %w", err)
	}
	var doc struct {
		Info  map[string]any                       `json:"info"`
		Paths map[string]map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return routes{}, fmt.Errorf("read the description of the API: %w", err)
	}
	out := routes{info: doc.Info}
	operations := catalog.Operations(catalog.Routed(specs))
	of := map[string][]httpapi.Operation{}
	for _, op := range operations {
		of[op.Function] = append(of[op.Function], op.Operation)
	}
	to := func(spec fn.Spec, op catalog.Operation) route {
		return route{
			Operation: op, timeout: spec.Timeout, streams: gateway.Streams(of[spec.Name]),
			document: doc.Paths[op.Path][strings.ToLower(op.Method)],
		}
	}
	for _, op := range operations {
		spec, _ := catalog.Find(specs, op.Function)
		out.list = append(out.list, to(spec, op))
	}
	if spec, found := catalog.Unmatched(specs); found {
		out.unmatched = to(spec, catalog.Operation{Function: spec.Name})
	}
	return out, nil
}

// The gateway's names for a method without its own operation, and for a path
// that matches no other.
const (
	anyMethod = "x-amazon-apigateway-any-method"
	anyPath   = "/{proxy+}"
)

// body returns the document that defines the API: each operation as it is
// described, with its function, but without the parts that the framework
// handles and for which the gateway would create models and authorizers
// (schemas, bodies, security). Requests that match no operation have a
// function, too, because the gateway has no response for an unknown method and
// does not know paths with a trailing slash.
func (r routes) body(cfg Config) map[string]any {
	paths := map[string]any{}
	item := func(path string) map[string]any {
		if paths[path] == nil {
			paths[path] = map[string]any{}
			if r.unmatched.Function != "" {
				paths[path].(map[string]any)[anyMethod] = r.unmatched.on(path).operation(cfg)
			}
		}
		return paths[path].(map[string]any)
	}
	for _, route := range r.list {
		item(route.Path)[strings.ToLower(route.Method)] = route.operation(cfg)
	}
	if r.unmatched.Function != "" {
		item("/")
		item(anyPath)
	}
	info := maps.Clone(r.info)
	delete(info, "license") // the gateway does not store it
	info["title"], info["version"] = cfg.name("api"), "1"
	return map[string]any{
		"openapi": "3.0.3", "info": info, "paths": paths,
		"x-amazon-apigateway-gateway-responses": gatewayResponses(cfg),
	}
}

// on returns the route at another path.
func (r route) on(path string) route {
	r.Path = path
	return r
}

// operation returns the route as an operation of the document.
func (r route) operation(cfg Config) map[string]any {
	out := map[string]any{"x-amazon-apigateway-integration": r.integration(cfg)}
	if r.ID != "" {
		out["operationId"] = r.ID
	}
	for _, key := range []string{"summary", "description", "tags"} {
		if value, found := r.document[key]; found {
			out[key] = value
		}
	}
	parameters := []any{}
	for _, p := range r.parameters() {
		parameters = append(parameters, p)
	}
	if len(parameters) > 0 {
		out["parameters"] = parameters
	}
	responses := map[string]any{}
	documented, _ := r.document["responses"].(map[string]any)
	for status, response := range documented {
		described, _ := response.(map[string]any)
		responses[status] = map[string]any{"description": described["description"]}
	}
	if len(responses) == 0 {
		responses["default"] = map[string]any{"description": "Answer"}
	}
	out["responses"] = responses
	return out
}

// parameters returns the path parameters, which the gateway requires. The
// framework checks all others.
func (r route) parameters() []map[string]any {
	var out []map[string]any
	for segment := range strings.SplitSeq(r.Path, "/") {
		if name, isParameter := strings.CutPrefix(segment, "{"); isParameter {
			out = append(out, map[string]any{
				"name": strings.TrimRight(name, "+}"), "in": "path", "required": true, "schema": map[string]any{"type": "string"},
			})
		}
	}
	return out
}

// integration passes a request to its function, in the form that package
// gateway expects. It names the function's alias instead of referring to it,
// because functions refer to the API.
func (r route) integration(cfg Config) map[string]any {
	version, call, limit := "2015-03-31", "invocations", bufferedLimit
	if r.streams {
		version, call, limit = "2021-11-15", "response-streaming-invocations", streamedLimit
	}
	out := map[string]any{
		"type": "aws_proxy", "httpMethod": "POST", "passthroughBehavior": "when_no_match",
		"timeoutInMillis": int(min(r.timeout, limit).Milliseconds()),
		"uri": awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:apigateway:${AWS::Region}:lambda:path/"+version+
			"/functions/arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:"+cfg.name(r.Function)+":"+invoke.Alias+"/"+call), nil),
	}
	if r.streams {
		out["responseTransferMode"] = "STREAM"
	}
	return out
}

// gatewayResponses give the gateway's own errors the shape of the service's.
func gatewayResponses(cfg Config) map[string]any {
	out := map[string]any{}
	say := func(kind string, status int, detail string) {
		response := map[string]any{
			"responseTemplates":  map[string]any{"application/json": `{"detail": ` + detail + `}`},
			"responseParameters": responseHeaders(cfg),
		}
		if status != 0 {
			response["statusCode"] = strconv.Itoa(status) // the extension defines a string
		}
		out[kind] = response
	}
	say("DEFAULT_4XX", 0, "$context.error.messageString")
	say("DEFAULT_5XX", 0, `"Internal Server Error"`)
	// The gateway's response if nothing matches.
	say("MISSING_AUTHENTICATION_TOKEN", 404, `"Not Found"`)
	say("REQUEST_TOO_LARGE", 413, `"The request body is too large"`)
	say("THROTTLED", 429, `"Too many requests"`)
	say("WAF_FILTERED", 403, `"The request was refused"`)
	say("INTEGRATION_FAILURE", 503, `"The service is temporarily unavailable"`)
	say("INTEGRATION_TIMEOUT", 504, `"The service did not answer in time"`)
	return out
}
