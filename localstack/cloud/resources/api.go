package resources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"millrace/localstack/cloud/gateway"
	"millrace/localstack/cloud/template"
)

// apiID is the id of the API in its address.
const apiID = "local"

type integration struct {
	Type            string
	URI             string
	TimeoutInMillis int
	TransferMode    string `json:"responseTransferMode"`
}

// document is the part of an OpenAPI document that API Gateway acts upon.
type document struct {
	Paths     map[string]map[string]json.RawMessage
	Responses map[string]struct {
		StatusCode         int
		ResponseTemplates  map[string]string
		ResponseParameters map[string]string
	} `json:"x-amazon-apigateway-gateway-responses"`
}

// restAPI describes the API by the document it is made of.
func (m *maker) restAPI(_ context.Context, _ *template.Resource, properties map[string]any) (template.Attributes, error) {
	p, err := decode[struct{ Body *document }](openBody(properties), "Name", "Description", "DisableExecuteApiEndpoint", "EndpointConfiguration",
		"FailOnWarnings", "Policy", "MinimumCompressionSize", "Mode", "BinaryMediaTypes")
	if err != nil {
		return template.Attributes{}, err
	}
	if p.Body == nil {
		return template.Attributes{}, errors.New("the API has no document in the template")
	}
	if m.out.API.ID != "" {
		return template.Attributes{}, errors.New("there is more than one API")
	}
	m.out.API.ID = apiID
	for _, path := range slices.Sorted(maps.Keys(p.Body.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(p.Body.Paths[path])) {
			var op struct {
				Integration integration `json:"x-amazon-apigateway-integration"`
			}
			if err := json.Unmarshal(p.Body.Paths[path][method], &op); err != nil {
				return template.Attributes{}, fmt.Errorf("%s %s: %w", method, path, err)
			}
			route, err := m.route(strings.ToUpper(method), path, op.Integration)
			if err != nil {
				return template.Attributes{}, fmt.Errorf("%s %s: %w", method, path, err)
			}
			m.out.API.Routes = append(m.out.API.Routes, route)
		}
	}
	m.out.API.Responses = map[string]gateway.Response{}
	for kind, r := range p.Body.Responses {
		m.out.API.Responses[kind] = gateway.Response{Status: r.StatusCode, Template: r.ResponseTemplates["application/json"], Headers: r.ResponseParameters}
	}
	return template.Attributes{Ref: apiID, Att: map[string]string{"RestApiId": apiID, "RootResourceId": "root"}}, nil
}

// openBody leaves of the document only what is acted upon: all else in it
// describes.
func openBody(properties map[string]any) map[string]any {
	body, is := properties["Body"].(map[string]any)
	if !is {
		return properties
	}
	out := maps.Clone(properties)
	acted := map[string]any{}
	for _, key := range []string{"paths", "x-amazon-apigateway-gateway-responses"} {
		if part, found := body[key]; found {
			acted[key] = part
		}
	}
	out["Body"] = acted
	return out
}

// call is the address of an invocation in an integration.
var call = regexp.MustCompile(`:lambda:path/(2015-03-31|2021-11-15)/functions/([^/]+)/(invocations|response-streaming-invocations)$`)

func (m *maker) route(method, path string, i integration) (gateway.Route, error) {
	match := call.FindStringSubmatch(i.URI)
	if i.Type != "aws_proxy" || match == nil {
		return gateway.Route{}, fmt.Errorf("the integration %q with %q is not known here", i.Type, i.URI)
	}
	streams := match[3] == "response-streaming-invocations"
	if streams != (i.TransferMode == "STREAM") {
		return gateway.Route{}, fmt.Errorf("the integration calls %s and has the transfer mode %q", match[3], i.TransferMode)
	}
	return gateway.Route{
		Method: method, Path: path, Function: functionName(match[2]), Stream: streams,
		Timeout: time.Duration(i.TimeoutInMillis) * time.Millisecond,
	}, nil
}

func (m *maker) stage(_ context.Context, _ *template.Resource, properties map[string]any) (template.Attributes, error) {
	p, err := decode[struct{ StageName string }](properties, "RestApiId", "DeploymentId", "AccessLogSetting", "MethodSettings", "Description", "TracingEnabled")
	if err != nil {
		return template.Attributes{}, err
	}
	m.out.API.Stage = p.StageName
	return template.Attributes{Ref: p.StageName}, nil
}
