package main

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/shared/account/tenant"
	"millrace/shared/kit/due"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

func specNamed(name string) func(fn.Spec) bool {
	return func(s fn.Spec) bool { return s.Name == name }
}

// weather is a fictitious domain that reads the table, writes objects and sends
// to one queue.
var weather = fn.Spec{
	Name: "weather", Doc: "Tells the weather.", Trigger: fn.Trigger{HTTP: true},
	Needs:    fn.Needs{Table: fn.Reads, Blob: fn.Writes, Folders: []string{"forecasts"}, Send: []string{"umbrellas"}},
	MemoryMB: 384, Timeout: 7 * time.Second,
	Routes: func(api *httpapi.API, _ fn.Deps) {
		httpapi.Register(api, httpapi.Operation{
			ID: "weather-get", Method: "GET", Path: "/weather/{place}", Function: "weather", Summary: "Get the weather", Access: tenant.Public,
		}, func(context.Context, *struct {
			Place string `path:"place"`
		}) (httpapi.None, error) {
			return httpapi.None{}, nil
		})
	},
}

// umbrellas is a fictitious event function.
var umbrellas = fn.Spec{
	Name: "umbrella-stand", Doc: "Hands out umbrellas.",
	Trigger:  fn.Trigger{Queues: []fn.QueueTrigger{{Queue: "umbrellas", Batch: 3}}, DetailTypes: []string{"rain.begun"}, DetailWhere: map[string][]string{"strength": {"heavy"}}},
	MemoryMB: 256, Timeout: 20 * time.Second,
	Messages: func(fn.Deps) fn.MessageHandler {
		return func(context.Context, events.SQSEvent) (events.SQSEventResponse, error) {
			return events.SQSEventResponse{}, nil
		}
	},
}

// parcels is a fictitious function that receives events of the bucket.
var parcels = fn.Spec{
	Name: "parcel-counter", Doc: "Counts parcels.",
	Trigger: fn.Trigger{Objects: fn.ObjectTrigger{
		Events: []fn.ObjectEvent{fn.ObjectCreated, fn.ObjectRemoved}, Prefix: "org_", Suffix: ".parcel",
	}},
	MemoryMB: 256, Timeout: 30 * time.Second, Messages: umbrellas.Messages,
}

// watering is a fictitious function that handles timed work.
var watering = fn.Spec{
	Name: "watering", Doc: "Waters plants.", Trigger: fn.Trigger{Due: []due.Kind{{Name: "plant"}, {Name: "tree", TakesNow: true}}},
	MemoryMB: 256, Timeout: 30 * time.Second, Messages: umbrellas.Messages,
}

// withWatering is a deployment of the catalog with watering.
var withWatering = sync.OnceValues(func() (deployment, error) {
	return synthesize(example(), catalog.With(watering), "code")
})

// more is a deployment of the catalog with fictitious domains. It is
// synthesized once.
var more = sync.OnceValues(func() (deployment, error) {
	return synthesize(example(), append(withoutObjects(), weather, umbrellas, parcels), "code")
})

// withParcels is a deployment of the catalog with parcels.
var withParcels = sync.OnceValues(func() (deployment, error) {
	return synthesize(example(), append(withoutObjects(), parcels), "code")
})

// withNeither is a deployment in which no function receives events of objects.
var withNeither = sync.OnceValues(func() (deployment, error) {
	return synthesize(example(), withoutObjects(), "code")
})

// withoutObjects is the catalog without the function that receives events of
// users' buckets, in whose place is one for those of the artifact bucket.
func withoutObjects() []fn.Spec { return slices.DeleteFunc(catalog.All(), specNamed("object-events")) }

func deployedWithParcels(t *testing.T) deployment {
	t.Helper()
	d, err := withParcels()
	require.NoError(t, err)
	return d
}

func deployedWithMore(t *testing.T) deployment {
	t.Helper()
	d, err := more()
	require.NoError(t, err)
	return d
}

func TestDomainIsOneLineOfCatalog(t *testing.T) {
	t.Parallel()
	before, after := deployed(t), deployedWithMore(t)

	route := after.paths(t)["/weather/{place}"].(object)["get"].(object)
	assert.Equal(t, []any{"weather-get", "Get the weather"}, []any{route["operationId"], route["summary"]})
	assert.Contains(t, text(route["x-amazon-apigateway-integration"].(object)["uri"]), ":function:millrace-acme-prod-weather:live/invocations")
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
	assert.ElementsMatch(t, []string{"GOGC", "GOMEMLIMIT", "MILLRACE_METRICS", "MILLRACE_TABLE", "MILLRACE_BUCKET", "MILLRACE_QUEUE_PREFIX", "MILLRACE_CURSOR_KEY", "MILLRACE_SIGNIN_ISSUER", "MILLRACE_SIGNIN_AUDIENCE", "MILLRACE_SIGNIN_JWKS_URL"}, slices.Collect(maps.Keys(variables)))

	queue, found := after.data.named("SQS::Queue", "QueueName", "millrace-acme-prod-umbrellas")
	require.True(t, found)
	assert.EqualValues(t, 120, queue.properties["VisibilityTimeout"])
	_, found = after.data.named("SQS::Queue", "QueueName", "millrace-acme-prod-bus-umbrella-stand-dead")
	assert.True(t, found)
	rule, found := after.data.named("Events::Rule", "Name", "millrace-acme-prod-umbrella-stand")
	require.True(t, found)
	assert.Equal(t, object{"source": []any{"millrace"}, "detail-type": []any{"rain.begun"}, "detail": object{"data": object{"strength": []any{"heavy"}}}}, rule.properties["EventPattern"])
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

	_, changed := difference(before.service, after.service)
	for _, r := range changed {
		assert.Contains(t, []string{"AWS::ApiGateway::RestApi", "AWS::ApiGateway::Deployment", "AWS::ApiGateway::Stage"}, r.kind, "%s is unchanged", r.id)
	}
}

// difference returns the resources of a template that are new or changed since
// an earlier one.
func difference(before, after template) (added, changed []resource) {
	for _, r := range after.resources {
		i := slices.IndexFunc(before.resources, func(other resource) bool { return other.id == r.id })
		switch {
		case i < 0:
			added = append(added, r)
		case !reflect.DeepEqual(before.resources[i].all, r.all):
			changed = append(changed, r)
		}
	}
	return added, changed
}

// TestBucketNotifiesFunction checks that everything needed to receive events of
// the bucket is derived from a function's spec.
func TestBucketNotifiesFunction(t *testing.T) {
	t.Parallel()
	before, err := withNeither()
	require.NoError(t, err)
	after := deployedWithParcels(t)
	const queue, bucket = "millrace-acme-prod-object-events", "arn:${AWS::Partition}:s3:::millrace-acme-prod-${AWS::AccountId}-${AWS::Region}"
	const queueARN = "arn:${AWS::Partition}:sqs:${AWS::Region}:${AWS::AccountId}:" + queue
	ids := func(list []resource) (out []string) {
		for _, r := range list {
			out = append(out, r.id)
		}
		return out
	}
	added, changed := difference(before.data, after.data)
	assert.Empty(t, added, "the queue exists before any function needs it")
	assert.Equal(t, []string{"Bucket", "DeadObjectEventsQueue", "ObjectEventsQueue"}, ids(changed), "the selected events and the visibility timeouts")

	notifying := changed[0]
	filter := object{"S3Key": object{"Rules": []any{object{"Name": "prefix", "Value": "org_"}, object{"Name": "suffix", "Value": ".parcel"}}}}
	arn := object{"Fn::Sub": queueARN}
	assert.Equal(t, object{"QueueConfigurations": []any{
		object{"Event": "s3:ObjectCreated:*", "Queue": arn, "Filter": filter},
		object{"Event": "s3:ObjectRemoved:*", "Queue": arn, "Filter": filter},
	}}, notifying.properties["NotificationConfiguration"])
	assert.Equal(t, []any{"ObjectEventsQueuePolicy"}, notifying.all["DependsOn"], "S3 sends a test event")
	was, rest := maps.Clone(before.data.of("S3::Bucket")[0].properties), maps.Clone(notifying.properties)
	assert.Equal(t, object{"QueueConfigurations": []any{object{"Event": "s3:ObjectCreated:*", "Queue": arn}}}, was["NotificationConfiguration"])
	delete(was, "NotificationConfiguration")
	delete(rest, "NotificationConfiguration")
	assert.Equal(t, was, rest, "the rest of the bucket is unchanged")

	q, found := after.data.named("SQS::Queue", "QueueName", queue)
	require.True(t, found)
	assert.EqualValues(t, 6*30, q.properties["VisibilityTimeout"])
	account := object{"Ref": "AWS::AccountId"}
	sends := after.data.policyStatements()["ObjectEventsQueuePolicy"]
	require.Len(t, sends, 2)
	assert.Equal(t, object{
		"Sid": "Bucket", "Effect": "Allow", "Principal": object{"Service": "s3.amazonaws.com"}, "Action": []any{"sqs:SendMessage"},
		"Resource": []any{object{"Fn::GetAtt": []any{"ObjectEventsQueue", "Arn"}}},
		"Condition": object{
			"ArnEquals": object{"aws:SourceArn": object{"Fn::Sub": bucket}}, "StringEquals": object{"aws:SourceAccount": account},
		},
	}, sends[1])
	keys := after.data.policyStatements()["Key"]
	assert.Equal(t, object{
		"Sid": "BucketToQueue", "Effect": "Allow", "Principal": object{"Service": "s3.amazonaws.com"},
		"Action": []any{"kms:Decrypt", "kms:GenerateDataKey"}, "Resource": []any{"*"},
	}, keys[len(keys)-1])

	added, changed = difference(before.service, after.service)
	assert.Empty(t, changed)
	added = slices.DeleteFunc(added, func(r resource) bool { return r.kind == "AWS::Lambda::Version" })
	assert.Equal(t, []string{
		"ParcelCounterCanary", "ParcelCounterFromObjectEvents", "ParcelCounterFunction", "ParcelCounterLive", "ParcelCounterLog", "ParcelCounterRole", "ParcelCounterRollout",
	}, ids(added))
	mapping := added[1].properties
	assert.Equal(t, []any{arn, object{"Ref": "ParcelCounterLive"}, 10.0, []any{"ReportBatchItemFailures"}},
		[]any{mapping["EventSourceArn"], mapping["FunctionName"], mapping["BatchSize"], mapping["FunctionResponseTypes"]})
	allowed := map[string][]string{}
	for _, s := range after.service.policyStatements()["ParcelCounterRole"] {
		for _, action := range texts(s["Action"]) {
			allowed[action] = texts(s["Resource"])
		}
	}
	for _, action := range []string{"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"} {
		assert.Equal(t, []string{queueARN}, allowed[action], action)
	}
	assert.NotContains(t, allowed, "s3:GetObject", "reading objects is a need of its own")
	assert.Contains(t, allowed, "kms:Decrypt", "its messages are encrypted")

	added, _ = difference(before.operations, after.operations)
	assert.Equal(t, []string{"ObjectEventsDead", "ObjectEventsOldest", "ParcelCounterErrors", "ParcelCounterThrottles"}, ids(added))
	assert.True(t, after.watched("AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", queue+"-dead"))
	assert.True(t, after.watched("AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName", queue))
}

// TestTimedWorkReachesFunction checks that each kind has a queue that triggers
// the function, and that the tick may send to it.
func TestTimedWorkReachesFunction(t *testing.T) {
	t.Parallel()
	before := deployed(t)
	after, err := withWatering()
	require.NoError(t, err)
	const prefix = "arn:${AWS::Partition}:sqs:${AWS::Region}:${AWS::AccountId}:millrace-acme-prod-"
	kinds := []string{prefix + "due-plant", prefix + "due-tree"}
	may := func(d deployment, role, action string) (resources []string) {
		for _, s := range d.service.policyStatements()[role] {
			if slices.Contains(texts(s["Action"]), action) && s["Effect"] == "Allow" {
				resources = append(resources, texts(s["Resource"])...)
			}
		}
		return resources
	}
	assert.Equal(t, append(may(before, "SchedulerTickRole", "sqs:SendMessage"), kinds...), may(after, "SchedulerTickRole", "sqs:SendMessage"))
	assert.Equal(t, kinds, may(after, "WateringRole", "sqs:ReceiveMessage"))
	for _, name := range []string{"plant", "tree"} {
		q, found := after.data.named("SQS::Queue", "QueueName", "millrace-acme-prod-due-"+name)
		require.True(t, found)
		assert.EqualValues(t, 6*30, q.properties["VisibilityTimeout"])
		assert.True(t, after.watched("AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", "millrace-acme-prod-due-"+name+"-dead"))
	}
	sources := map[string]float64{}
	for _, m := range after.service.of("Lambda::EventSourceMapping") {
		if text(m.properties["FunctionName"]) == "${WateringLive}" || strings.HasPrefix(m.id, "Watering") {
			sources[text(m.properties["EventSourceArn"])] = number(m.properties["BatchSize"])
		}
	}
	assert.Equal(t, map[string]float64{kinds[0]: 10, kinds[1]: 10}, sources)
	_, changed := difference(before.service, after.service)
	require.Len(t, changed, 1)
	assert.Equal(t, "SchedulerTickRole", changed[0].id)
}

// objectEvents returns the resources of the bucket's notifications as a
// template, to test the local cloud.
func (d deployment) objectEvents() template {
	wanted := object{}
	for _, r := range slices.Concat(d.data.resources, d.service.resources) {
		switch {
		case r.id == "Bucket", r.id == "Key", strings.Contains(r.id, "ObjectEvents"):
			wanted[r.id] = r.all
		}
	}
	return template{json: object{"Resources": wanted}}
}

func TestEmptyCatalogIsRejected(t *testing.T) {
	t.Parallel()
	_, err := synthesize(example(), nil, "code")
	require.ErrorContains(t, err, "the catalog is empty")
}

// TestUsersBucketsNotifyFunction checks that buckets of the account may notify
// the queue of object-events, and that the deployment's own bucket does not.
func TestUsersBucketsNotifyFunction(t *testing.T) {
	t.Parallel()
	d := deployed(t)
	assert.NotContains(t, d.data.of("S3::Bucket")[0].properties, "NotificationConfiguration")
	sends := d.data.policyStatements()["ObjectEventsQueuePolicy"]
	require.Len(t, sends, 2)
	assert.Equal(t, object{
		"Sid": "Bucket", "Effect": "Allow", "Principal": object{"Service": "s3.amazonaws.com"}, "Action": []any{"sqs:SendMessage"},
		"Resource": []any{object{"Fn::GetAtt": []any{"ObjectEventsQueue", "Arn"}}},
		"Condition": object{
			"ArnLike":      object{"aws:SourceArn": object{"Fn::Sub": "arn:${AWS::Partition}:s3:::*"}},
			"StringEquals": object{"aws:SourceAccount": object{"Ref": "AWS::AccountId"}},
		},
	}, sends[1])
	i := slices.IndexFunc(d.service.of("Lambda::EventSourceMapping"), func(m resource) bool {
		return strings.HasSuffix(text(m.properties["EventSourceArn"]), ":millrace-acme-prod-object-events")
	})
	require.GreaterOrEqual(t, i, 0)
	mapping := d.service.of("Lambda::EventSourceMapping")[i].properties
	assert.Equal(t, []any{object{"Ref": "ObjectEventsLive"}, []any{"ReportBatchItemFailures"}}, []any{mapping["FunctionName"], mapping["FunctionResponseTypes"]})
}
