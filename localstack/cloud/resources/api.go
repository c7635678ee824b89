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

// document is the part of an OpenAPI document that API Gateway uses.
type document struct {
	Paths map[string]map[string]struct {
		Integration integration `json:"x-amazon-apigateway-integration"`
	}
	Responses map[string]struct {
		StatusCode         int `json:",string"`
		ResponseTemplates  map[string]string
		ResponseParameters map[string]string
	} `json:"x-amazon-apigateway-gateway-responses"`
}

type integration struct {
	Type, URI            string
	TimeoutInMillis      int
	ResponseTransferMode string
}

// restAPI describes the API from its document.
func (m *maker) restAPI(_ context.Context, p struct{ Body json.RawMessage }) (template.Attributes, error) {
	if m.out.API.Responses != nil {
		return template.Attributes{}, errors.New("there is more than one API")
	}
	var doc document
	if err := json.Unmarshal(p.Body, &doc); err != nil {
		return template.Attributes{}, fmt.Errorf("the document of the API: %w", err)
	}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			route, err := m.route(methods(method), path, doc.Paths[path][method].Integration)
			if err != nil {
				return template.Attributes{}, fmt.Errorf("%s %s: %w", method, path, err)
			}
			m.out.API.Routes = append(m.out.API.Routes, route)
		}
	}
	m.out.API.Responses = map[string]gateway.Response{}
	for kind, r := range doc.Responses {
		m.out.API.Responses[kind] = gateway.Response{Status: r.StatusCode, Template: r.ResponseTemplates["application/json"], Headers: r.ResponseParameters}
	}
	return template.Attributes{Ref: apiID}, nil
}

// methods returns the method of a route by its key in the document.
func methods(key string) string {
	if key == "x-amazon-apigateway-any-method" {
		return gateway.AnyMethod
	}
	return strings.ToUpper(key)
}

// call matches the invocation address of an integration.
var call = regexp.MustCompile(`:lambda:path/[0-9-]+/functions/([^/]+)/(response-streaming-)?invocations$`)

func (m *maker) route(method, path string, i integration) (gateway.Route, error) {
	match := call.FindStringSubmatch(i.URI)
	stream := i.ResponseTransferMode == "STREAM"
	if i.Type != "aws_proxy" || match == nil || stream != (match[2] != "") {
		return gateway.Route{}, fmt.Errorf("the integration %+v is not known here", i)
	}
	return gateway.Route{
		Method: method, Path: path, Function: m.functionName(match[1]), Stream: stream,
		Timeout: time.Duration(i.TimeoutInMillis) * time.Millisecond,
	}, nil
}

func (m *maker) stage(_ context.Context, p struct{ StageName string }) (template.Attributes, error) {
	m.out.API.Stage = p.StageName
	return template.Attributes{Ref: p.StageName}, nil
}
