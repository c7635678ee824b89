package main

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/shared/fn"
	"millrace/shared/httpapi"
	"millrace/shared/tenant"
)

func specNamed(name string) func(fn.Spec) bool {
	return func(s fn.Spec) bool { return s.Name == name }
}

// weather is a domain that there is not: it reads the table, writes objects and
// sends to one queue.
var weather = fn.Spec{
	Name: "weather", Doc: "Tells the weather.", Trigger: fn.Trigger{HTTP: true},
	Needs:    fn.Needs{Table: fn.Reads, Blob: fn.Writes, Folders: []string{"forecasts"}, Send: []string{"umbrellas"}},
	MemoryMB: 384, Timeout: 7 * time.Second,
	Routes: func(api *httpapi.API, _ fn.Deps) {
		httpapi.Register(api, httpapi.Operation{
			ID: "weather-get", Method: "GET", Path: "/weather/{place}", Domain: "weather", Summary: "Get the weather", Access: tenant.Public,
		}, func(context.Context, *struct {
			Place string `path:"place"`
		}) (*struct{}, error) {
			return nil, nil
		})
	},
}

// umbrellas is an event function that there is not.
var umbrellas = fn.Spec{
	Name: "umbrella-stand", Doc: "Hands out umbrellas.",
	Trigger:  fn.Trigger{Queues: []fn.QueueTrigger{{Queue: "umbrellas", Batch: 3}}, DetailTypes: []string{"rain.begun"}},
	MemoryMB: 256, Timeout: 20 * time.Second,
	Messages: func(fn.Deps) fn.MessageHandler {
		return func(context.Context, events.SQSEvent) (events.SQSEventResponse, error) {
			return events.SQSEventResponse{}, nil
		}
	},
}

func TestADomainIsOneLineOfTheCatalog(t *testing.T) {
	t.Parallel()
	before := deployed(t)
	after := synth(t, before.cfg, append(catalog.All(), weather, umbrellas), "code")

	route := after.paths(t)["/weather/{place}"].(object)["get"].(object)
	assert.Equal(t, []any{"weather-get", "Get the weather"}, []any{route["operationId"], route["summary"]})
	assert.Contains(t, text(route["x-amazon-apigateway-integration"].(object)["uri"]), ":function:millrace-acme-prod-weather/invocations")
	assert.EqualValues(t, 7000, route["x-amazon-apigateway-integration"].(object)["timeoutInMillis"])
	assert.Len(t, after.paths(t), len(before.paths(t))+1)

	allowed := map[string][]string{}
	for _, s := range after.service.policyStatements()["WeatherRole"] {
		assert.Equal(t, "Allow", s["Effect"])
		for _, action := range texts(s["Action"]) {
			allowed[action] = append(allowed[action], texts(s["Resource"])...)
		}
	}
	const account = ":${AWS::Region}:${AWS::AccountId}:"
	assert.Equal(t, []string{"arn:${AWS::Partition}:sqs" + account + "millrace-acme-prod-umbrellas"}, allowed["sqs:SendMessage"])
	assert.Equal(t, []string{"arn:${AWS::Partition}:dynamodb" + account + "table/millrace-acme-prod-table"}, allowed["dynamodb:GetItem"])
	bucket := "arn:${AWS::Partition}:s3:::millrace-acme-prod-${AWS::AccountId}-${AWS::Region}/*/"
	assert.Equal(t, []string{bucket + "forecasts/*", bucket + "exceptions/*", bucket + "messages/*"}, allowed["s3:PutObject"])
	for _, action := range []string{"dynamodb:PutItem", "events:PutEvents", "lambda:InvokeFunction", "sqs:ReceiveMessage"} {
		assert.NotContains(t, allowed, action)
	}
	variables := after.function(t, "weather").properties["Environment"].(object)["Variables"].(object)
	assert.ElementsMatch(t, []string{"MILLRACE_METRICS", "MILLRACE_TABLE", "MILLRACE_BUCKET", "MILLRACE_QUEUE_PREFIX", "MILLRACE_CURSOR_KEY"}, slices.Collect(maps.Keys(variables)))

	queue, found := after.data.named("SQS::Queue", "QueueName", "millrace-acme-prod-umbrellas")
	require.True(t, found)
	assert.EqualValues(t, 120, queue.properties["VisibilityTimeout"])
	_, found = after.data.named("SQS::Queue", "QueueName", "millrace-acme-prod-bus-umbrella-stand-dead")
	assert.True(t, found)
	rule, found := after.data.named("Events::Rule", "Name", "millrace-acme-prod-umbrella-stand")
	require.True(t, found)
	assert.Equal(t, object{"source": []any{"millrace"}, "detail-type": []any{"rain.begun"}}, rule.properties["EventPattern"])
	assert.Contains(t, text(rule.properties["Targets"]), "millrace-acme-prod-bus-umbrella-stand")
	sources := map[string]float64{}
	for _, m := range after.service.of("Lambda::EventSourceMapping") {
		sources[text(m.properties["EventSourceArn"])] = number(m.properties["BatchSize"])
	}
	assert.EqualValues(t, 3, sources["arn:${AWS::Partition}:sqs"+account+"millrace-acme-prod-umbrellas"])
	assert.EqualValues(t, 10, sources["arn:${AWS::Partition}:sqs"+account+"millrace-acme-prod-bus-umbrella-stand"])
	for _, name := range []string{"weather", "umbrella-stand"} {
		assert.True(t, after.watched("AWS/Lambda", "Errors", "FunctionName", "millrace-acme-prod-"+name))
	}
	assert.True(t, after.watched("AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", "millrace-acme-prod-bus-umbrella-stand-dead"))
	assert.Contains(t, text(after.operations.of("CloudWatch::Dashboard")[0].properties["DashboardBody"]), "millrace-acme-prod-weather")

	for _, r := range before.service.resources {
		if r.kind != "AWS::ApiGateway::RestApi" && r.kind != "AWS::ApiGateway::Deployment" && r.kind != "AWS::ApiGateway::Stage" {
			same := slices.IndexFunc(after.service.resources, func(other resource) bool { return other.id == r.id })
			require.GreaterOrEqual(t, same, 0, r.id)
			assert.Equal(t, r.all, after.service.resources[same].all, "%s is as it was", r.id)
		}
	}
}

func TestAnEmptyCatalogIsRefused(t *testing.T) {
	t.Parallel()
	_, err := synthesize(example(), nil, "code")
	require.ErrorContains(t, err, "the catalog is empty")
}
