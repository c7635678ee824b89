package resources_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	bustypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/localstack/cloud/cloudtest"
	"millrace/localstack/cloud/resources"
	"millrace/localstack/cloud/template"
	"millrace/localstack/emulators"
	"millrace/shared/fn/gateway"
	"millrace/shared/httpapi"
	"millrace/shared/ids"
	"millrace/shared/queue"
	"millrace/shared/table/dynamo"
	"millrace/shared/tier"
)

func TestMain(m *testing.M) {
	code := m.Run()
	emulators.StopAll()
	os.Exit(code)
}

// where is the services with which the test's resources are made.
func where(t *testing.T) resources.Where {
	t.Helper()
	on := emulators.Shared(t)
	return resources.Where{Services: resources.NewServices(on), Region: on.SQS.Config().Region, AccountID: on.AccountID}
}

func unique() string { return "test-" + strings.ToLower(ids.Slug()) }

// TestTheTemplatesAreTheCatalog: what is made of the templates is what the
// service's own definitions say.
func TestTheTemplatesAreTheCatalog(t *testing.T) {
	t.Parallel()
	name, specs, on := unique(), catalog.All(), where(t)
	d, err := resources.Make(t.Context(), cloudtest.Assembly(t, name), on)
	require.NoError(t, err)

	functions := map[string]resources.Function{}
	for _, f := range d.Functions {
		functions[strings.TrimPrefix(f.Name, name+"-")] = f
	}
	want := []string{}
	for _, s := range specs {
		want = append(want, s.Name)
		f := functions[s.Name]
		assert.Equal(t, s.Name, f.Handler)
		assert.Equal(t, s.Timeout, f.Timeout, s.Name)
		assert.False(t, f.Tenants, s.Name)
	}
	for _, size := range tier.All() {
		want = append(want, "sandbox-"+string(size))
		assert.True(t, functions["sandbox-"+string(size)].Tenants)
	}
	assert.ElementsMatch(t, want, slices.Collect(maps.Keys(functions)))

	var fed []string
	for _, m := range d.Mappings {
		fed = append(fed, strings.TrimPrefix(m.Queue, name+"-"))
		assert.True(t, m.Partial)
	}
	var queues []string
	for _, q := range catalog.Queues(specs) {
		queues = append(queues, q.Name)
		checkQueue(t, on, name+"-"+q.Name, q)
	}
	assert.ElementsMatch(t, queues, fed)

	type route struct {
		method, path, function string
		stream                 bool
	}
	var routes, operations []route
	for _, r := range d.API.Routes {
		routes = append(routes, route{r.Method, r.Path, strings.TrimPrefix(r.Function, name+"-"), r.Stream})
	}
	of := map[string][]httpapi.Operation{}
	for _, op := range catalog.Operations(specs) {
		of[op.Function] = append(of[op.Function], op.Operation)
	}
	for _, op := range catalog.Operations(specs) {
		operations = append(operations, route{op.Method, op.Path, op.Function, gateway.Streams(of[op.Function])})
	}
	assert.ElementsMatch(t, operations, routes)
	assert.Equal(t, "v1", d.API.Stage)

	var ticks []string
	for _, s := range specs {
		if s.Trigger.EveryMinute {
			ticks = append(ticks, name+"-"+s.Name)
		}
	}
	for i, s := range d.Schedules {
		assert.Equal(t, ticks[i], s.Function)
		assert.Equal(t, time.Minute, s.Every)
		assert.Contains(t, string(s.Input), `"event_type":"scheduler_tick"`)
	}
	assert.Len(t, d.Schedules, len(ticks))
	assert.Positive(t, d.Absent["AWS::IAM::Role"])

	checkTable(t, on, d.Tables)
	checkStores(t, on, name, d.Buckets)
}

func checkTable(t *testing.T, on resources.Where, names []string) {
	t.Helper()
	require.Len(t, names, 1)
	made, err := on.DynamoDB.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &names[0]})
	require.NoError(t, err)
	want := dynamo.Schema(names[0])
	assert.Equal(t, want.KeySchema, made.Table.KeySchema)
	assert.ElementsMatch(t, want.AttributeDefinitions, made.Table.AttributeDefinitions)
	indexes := map[string]types.GlobalSecondaryIndexDescription{}
	for _, x := range made.Table.GlobalSecondaryIndexes {
		indexes[*x.IndexName] = x
	}
	assert.Len(t, indexes, len(want.GlobalSecondaryIndexes))
	for _, x := range want.GlobalSecondaryIndexes {
		assert.Equal(t, x.KeySchema, indexes[*x.IndexName].KeySchema)
		assert.Equal(t, x.Projection.ProjectionType, indexes[*x.IndexName].Projection.ProjectionType)
	}
	ttl, err := on.DynamoDB.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &names[0]})
	require.NoError(t, err)
	assert.Equal(t, *dynamo.TimeToLive(names[0]).TimeToLiveSpecification.AttributeName, *ttl.TimeToLiveDescription.AttributeName)
	assert.Equal(t, types.TimeToLiveStatusEnabled, ttl.TimeToLiveDescription.TimeToLiveStatus)
}

func checkQueue(t *testing.T, on resources.Where, name string, def queue.Definition) {
	t.Helper()
	attributes := func(name string) map[string]string {
		url, err := on.SQS.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &name})
		require.NoError(t, err, name)
		out, err := on.SQS.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
			QueueUrl: url.QueueUrl, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameAll},
		})
		require.NoError(t, err)
		return out.Attributes
	}
	made := attributes(name)
	hidden, err := strconv.Atoi(made["VisibilityTimeout"])
	require.NoError(t, err)
	assert.GreaterOrEqual(t, time.Duration(hidden)*time.Second, def.Visibility, name)
	assert.Equal(t, strconv.Itoa(queue.MaxBody), made["MaximumMessageSize"])
	var redrive struct {
		ARN string `json:"deadLetterTargetArn"`
		Max int    `json:"maxReceiveCount"`
	}
	require.NoError(t, json.Unmarshal([]byte(made["RedrivePolicy"]), &redrive), name)
	assert.Equal(t, queue.MaxReceives, redrive.Max)
	dead := attributes(strings.TrimSuffix(name, def.Name) + queue.Dead(def.Name))
	assert.Equal(t, dead["QueueArn"], redrive.ARN)
}

func checkStores(t *testing.T, on resources.Where, name string, buckets []string) {
	t.Helper()
	require.Len(t, buckets, 1)
	versions, err := on.S3.GetBucketVersioning(t.Context(), &s3.GetBucketVersioningInput{Bucket: &buckets[0]})
	require.NoError(t, err)
	assert.Equal(t, "Enabled", string(versions.Status))
	rules, err := on.S3.GetBucketLifecycleConfiguration(t.Context(), &s3.GetBucketLifecycleConfigurationInput{Bucket: &buckets[0]})
	require.NoError(t, err)
	assert.NotEmpty(t, rules.Rules)
	for _, secret := range []string{"cursor-secret", "attempt-secret"} {
		value, err := on.SecretsManager.GetSecretValue(t.Context(), &secretsmanager.GetSecretValueInput{SecretId: aws.String(name + "-" + secret)})
		require.NoError(t, err)
		assert.Regexp(t, `^[A-Za-z0-9]{64}$`, *value.SecretString)
	}
	_, err = on.KMS.DescribeKey(t.Context(), &kms.DescribeKeyInput{KeyId: aws.String("alias/" + name + "-data")})
	require.NoError(t, err)
	_, err = on.EventBridge.DescribeEventBus(t.Context(), &eventbridge.DescribeEventBusInput{Name: aws.String(name + "-bus")})
	require.NoError(t, err)
}

// make1 makes the resources of one stack.
func make1(t *testing.T, on resources.Where, body string) (*resources.Deployment, error) {
	t.Helper()
	a, err := template.Load(fstest.MapFS{unique() + ".template.json": &fstest.MapFile{Data: []byte(`{"Resources": {` + body + `}}`)}})
	require.NoError(t, err)
	return resources.Make(t.Context(), a, on)
}

const function = `"F": {"Type": "AWS::Lambda::Function", "Properties": {"Runtime": "provided.al2023", "Handler": "f"}}`

// TestWhatNobodyDecidedAboutIsRefused: what a template says is applied, known to
// be without effect, or an error.
func TestWhatNobodyDecidedAboutIsRefused(t *testing.T) {
	t.Parallel()
	on := where(t)
	resource := func(kind, properties string) string {
		return `"R": {"Type": "` + kind + `", "Properties": {` + properties + `}}`
	}
	for _, c := range []struct{ body, want string }{
		{resource("AWS::EC2::Instance", ""), "R (AWS::EC2::Instance): resources of the kind AWS::EC2::Instance are neither made"},
		{resource("AWS::DynamoDB::Table", `"BillingMode": "PROVISIONED"`), `billing mode "PROVISIONED"`},
		{resource("AWS::DynamoDB::Table", `"StreamSpecification": {}`), "StreamSpecification"},
		{resource("AWS::S3::Bucket", `"WebsiteConfiguration": {}`), "WebsiteConfiguration"},
		{resource("AWS::S3::Bucket", `"NotificationConfiguration": {"TopicConfigurations": []}`), "TopicConfigurations"},
		{resource("AWS::S3::Bucket", `"NotificationConfiguration": {"QueueConfigurations": [{"Event": "s3:ObjectCreated:*", "Queue": "arn:aws:sqs:x"}]}`), "is no queue of this deployment"},
		{resource("AWS::SQS::Queue", `"NewThing": [1]`), "NewThing"},
		{resource("AWS::SQS::Queue", `"NoSuchAttribute": 1`), "NoSuchAttribute"},
		{resource("AWS::SecretsManager::Secret", `"GenerateSecretString": {"RequireEachIncludedType": true}`), "RequireEachIncludedType"},
		{resource("AWS::Lambda::Function", `"FileSystemConfigs": []`), "FileSystemConfigs"},
		{resource("AWS::Lambda::Function", `"TenancyConfig": {"TenantIsolationMode": "OTHER"}`), `"OTHER"`},
		{resource("AWS::Lambda::EventSourceMapping", `"EventSourceArn": "arn:aws:kinesis:x"`), "is no queue of this deployment"},
		{resource("AWS::Lambda::EventSourceMapping", `"EventSourceArn": {"Fn::Sub": "arn:aws:sqs:${AWS::Region}:${AWS::AccountId}:q"}, "FunctionName": "nobody"`), "go to nobody, which is no function"},
		{resource("AWS::Lambda::EventSourceMapping", `"EventSourceArn": {"Fn::Sub": "arn:aws:sqs:${AWS::Region}:${AWS::AccountId}:q"}, "BatchSize": 100`), "more than 10"},
		{resource("AWS::Events::Rule", `"ScheduleExpression": "cron(0 * * * ? *)"`), `"cron(0 * * * ? *)" is not known here`},
		{resource("AWS::Events::Rule", `"ScheduleExpression": "rate(1 hour)", "Targets": [{"Id": "t", "Arn": "arn:aws:sns:x"}]`), "is no function"},
		{resource("AWS::Events::Rule", `"EventPattern": {"source": ["x"]}, "Targets": [{"Id": "t", "Arn": "arn:aws:sns:x"}]`), "neither a queue nor a function"},
		{resource("AWS::Events::Rule", `"State": "ENABLED"`), "either a pattern or a schedule"},
		{resource("AWS::ApiGateway::RestApi", `"Name": "x"`), "no document"},
		{resource("AWS::ApiGateway::RestApi", `"Body": {"paths": {"/a": {"get": {"x-amazon-apigateway-integration": {"type": "mock"}}}}}`), `get /a: the integration "mock"`},
		{`"R": {"Type": "AWS::SSM::Parameter"}`, "AWS::SSM::Parameter"},
	} {
		_, err := make1(t, on, c.body)
		assert.ErrorContains(t, err, c.want, c.body)
	}
	for kind, why := range resources.Absent() {
		assert.NotEmpty(t, why, kind)
		_, err := make1(t, on, resource(kind, ""))
		assert.NoError(t, err, kind)
	}
}

// TestRulesSendFunctionsTheirEvents: what a rule sends to a function comes by a
// queue of its own.
func TestRulesSendFunctionsTheirEvents(t *testing.T) {
	t.Parallel()
	on, name := where(t), unique()
	d, err := make1(t, on, function+`,
		"Bus": {"Type": "AWS::Events::EventBus", "Properties": {"Name": "`+name+`"}},
		"Off": {"Type": "AWS::Events::Rule", "Properties": {"State": "DISABLED", "ScheduleExpression": "rate(1 day)", "Targets": [{"Id": "t", "Arn": {"Fn::GetAtt": ["F", "Arn"]}}]}},
		"Daily": {"Type": "AWS::Events::Rule", "Properties": {"ScheduleExpression": "rate(2 days)", "Targets": [{"Id": "t", "Arn": {"Fn::GetAtt": ["F", "Arn"]}}]}},
		"Rule": {"Type": "AWS::Events::Rule", "Properties": {
			"EventBusName": {"Ref": "Bus"}, "EventPattern": {"source": ["millrace"], "detail-type": ["run.finished"]},
			"Targets": [{"Id": "f", "Arn": {"Fn::GetAtt": ["F", "Arn"]}}]
		}}`)
	require.NoError(t, err)
	require.Len(t, d.Schedules, 1)
	assert.Equal(t, 48*time.Hour, d.Schedules[0].Every)
	require.Len(t, d.Mappings, 1)
	m := d.Mappings[0]
	assert.True(t, m.Rule)
	assert.Equal(t, d.Functions[0].Name, m.Function)
	_, err = on.EventBridge.PutEvents(t.Context(), &eventbridge.PutEventsInput{Entries: []bustypes.PutEventsRequestEntry{
		{EventBusName: &name, Source: aws.String("millrace"), DetailType: aws.String("other"), Detail: aws.String(`{}`)},
		{EventBusName: &name, Source: aws.String("millrace"), DetailType: aws.String("run.finished"), Detail: aws.String(`{"run_id": "R"}`)},
	}})
	require.NoError(t, err)
	url, err := on.SQS.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &m.Queue})
	require.NoError(t, err)
	got, err := on.SQS.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url.QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 5})
	require.NoError(t, err)
	require.Len(t, got.Messages, 1)
	assert.Contains(t, *got.Messages[0].Body, `"run_id"`)
	assert.Contains(t, *got.Messages[0].Body, `"detail-type"`)
}
