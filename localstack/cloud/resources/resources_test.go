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
	"millrace/shared/platform/ids"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table/dynamo"
	"millrace/shared/run/tier"
	"millrace/shared/web/gateway"
	"millrace/shared/web/httpapi"
)

func TestMain(m *testing.M) {
	code := m.Run()
	emulators.StopAll()
	os.Exit(code)
}

// where returns the services in which the test's resources are created.
func where(t *testing.T) resources.Where {
	t.Helper()
	on := emulators.Shared(t)
	return resources.Where{Services: resources.NewServices(on), Region: on.SQS.Config().Region, AccountID: on.AccountID}
}

func unique() string { return "test-" + strings.ToLower(ids.Slug()) }

// TestTemplatesMatchCatalog compares the resources with the service's own
// definitions.
func TestTemplatesMatchCatalog(t *testing.T) {
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
	of, paths := map[string][]httpapi.Operation{}, map[string]bool{"/{proxy+}": true}
	for _, op := range catalog.Operations(catalog.Routed(specs)) {
		of[op.Function] = append(of[op.Function], op.Operation)
	}
	for _, op := range catalog.Operations(catalog.Routed(specs)) {
		operations = append(operations, route{op.Method, op.Path, op.Function, gateway.Streams(of[op.Function])})
		paths[op.Path] = true
	}
	unmatched, found := catalog.Unmatched(specs)
	require.True(t, found)
	for path := range paths {
		operations = append(operations, route{"ANY", path, unmatched.Name, gateway.Streams(of[unmatched.Name])})
	}
	assert.ElementsMatch(t, operations, routes)
	assert.Equal(t, "v1", d.API.Stage)
	assert.Equal(t, []resources.URL{{
		Address: "https://" + name + "-sandboxlogs.lambda-url." + on.Region + ".on.aws", Function: name + "-sandboxlogs", Open: true,
	}}, d.URLs)
	assert.Equal(t, d.URLs[0].Address+"/internal/attempts", functions["sandbox-nano"].Environment["MILLRACE_ATTEMPTS_URL"])

	var ticks []string
	for _, s := range specs {
		if s.Trigger.EveryMinute {
			ticks = append(ticks, name+"-"+s.Name)
		}
	}
	for i, s := range d.Schedules {
		assert.Equal(t, ticks[i], s.Function)
		assert.Contains(t, string(s.Input), `"event_type":"scheduler_tick"`)
	}
	assert.Len(t, d.Schedules, len(ticks))
	assert.Greater(t, d.Made, len(d.Functions))
	assert.Positive(t, d.Absent)

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

// make1 creates the resources of one stack.
func make1(t *testing.T, on resources.Where, body string) (*resources.Deployment, error) {
	t.Helper()
	a, err := template.Load(fstest.MapFS{unique() + ".template.json": &fstest.MapFile{Data: []byte(`{"Resources": {` + body + `}}`)}})
	require.NoError(t, err)
	return resources.Make(t.Context(), a, on)
}

// TestUnknownKindsAndPropertiesAreRejected: everything in a template is
// applied, known to have no effect, or an error.
func TestUnknownKindsAndPropertiesAreRejected(t *testing.T) {
	t.Parallel()
	on := where(t)
	const queue, nobody = `"arn:aws:sqs:${AWS::Region}:${AWS::AccountId}:q"`, `"Targets": [{"Id": "t", "Arn": "arn:aws:sns:x", "Input": "{}"}]`
	for _, c := range []struct{ kind, properties, want string }{
		{"EC2::Instance", "", "neither made on one machine"},
		{"DynamoDB::Table", `"StreamSpecification": {}`, "StreamSpecification"},
		{"DynamoDB::Table", `"KinesisStreamSpecification": {}`, "KinesisStreamSpecification"},
		{"S3::Bucket", `"WebsiteConfiguration": {}`, "WebsiteConfiguration"},
		{"S3::Bucket", `"LifecycleConfiguration": {"Rules": [{"ExpirationDate": "2026-01-01"}]}`, "ExpirationDate"},
		{"S3::Bucket", `"NotificationConfiguration": {"TopicConfigurations": []}`, "TopicConfigurations"},
		{"S3::Bucket", `"NotificationConfiguration": {"QueueConfigurations": [{"Event": "s3:ObjectCreated:*", "Queue": "arn:aws:sqs:x"}]}`, "is no queue of this deployment"},
		{"SQS::Queue", `"NewThing": [1]`, "NewThing"},
		{"SecretsManager::Secret", `"SecretString": "known"`, "SecretString"},
		{"Lambda::Function", `"FileSystemConfigs": []`, "FileSystemConfigs"},
		{"Lambda::Function", `"TenancyConfig": {"TenantIsolationMode": "OTHER"}`, `"OTHER"`},
		{"Lambda::EventSourceMapping", `"EventSourceArn": "arn:aws:kinesis:x"`, "is no queue of this deployment"},
		{"Lambda::EventSourceMapping", `"EventSourceArn": {"Fn::Sub": ` + queue + `}, "BatchSize": 1, "FunctionName": "nobody"`, "nobody is no function"},
		{"Lambda::EventSourceMapping", `"EventSourceArn": {"Fn::Sub": ` + queue + `}, "BatchSize": 100`, "batches of 100"},
		{"Lambda::EventSourceMapping", `"EventSourceArn": {"Fn::Sub": ` + queue + `}, "BatchSize": 1, "FunctionName": {"Fn::Sub": "arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:f:live"}`, "f:live is no alias"},
		{"Lambda::Alias", `"Name": "live", "FunctionName": "f", "FunctionVersion": "7"`, `the version "7" is not known here`},
		{"Lambda::Alias", `"Name": "live", "FunctionName": "f", "FunctionVersion": "1", "RoutingConfig": {}`, "RoutingConfig"},
		{"Lambda::Url", `"TargetFunctionArn": "f", "AuthType": "AWS_IAM"`, `"AWS_IAM" of a URL is not known here`},
		{"Lambda::Url", `"TargetFunctionArn": "f", "AuthType": "NONE", "Cors": {}`, "Cors"},
		{"Lambda::Url", `"TargetFunctionArn": "f", "AuthType": "NONE"`, "f is no function of this deployment"},
		{"Lambda::Permission", `"Action": "lambda:InvokeFunction", "FunctionName": "f", "Principal": "*"`, "for * is not known here"},
		{"Lambda::Permission", `"Action": "lambda:InvokeFunctionUrl", "FunctionName": "f", "Principal": "123456789012"`, "for 123456789012 is not known here"},
		{"Events::Rule", `"ScheduleExpression": "cron(0 * * * ? *)"`, `"cron(0 * * * ? *)" is not known here`},
		{"Events::Rule", `"ScheduleExpression": "rate(1 minute)", "EventPattern": {}`, "not known here"},
		{"Events::Rule", `"ScheduleExpression": "rate(1 minute)", ` + nobody, "arn:aws:sns:x is no function"},
		{"Events::Rule", `"ScheduleExpression": "rate(1 minute)", "Targets": [{"Id": "t", "Arn": "f"}]`, "input"},
		{"Events::Rule", `"EventPattern": {"source": ["x"]}, ` + nobody, "arn:aws:sns:x is no queue"},
		{"Events::Rule", `"State": "DISABLED"`, "State"},
		{"ApiGateway::RestApi", `"Name": "x"`, "the document of the API"},
		{"ApiGateway::RestApi", `"Body": {"paths": {"/a": {"get": {"x-amazon-apigateway-integration": {"type": "mock"}}}}}`, "get /a: the integration {Type:mock"},
	} {
		_, err := make1(t, on, `"R": {"Type": "AWS::`+c.kind+`", "Properties": {`+c.properties+`}}`)
		assert.ErrorContains(t, err, c.want, c.properties)
	}
}

// TestBackupElsewhereHasNoEffect: there is no other region on one machine.
func TestBackupElsewhereHasNoEffect(t *testing.T) {
	t.Parallel()
	_, err := make1(t, where(t), `
		"Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "`+unique()+`", "VersioningConfiguration": {"Status": "Enabled"}, "ReplicationConfiguration": {"Role": "r"}}},
		"Key": {"Type": "AWS::KMS::Key", "Properties": {"MultiRegion": true}},
		"BackupVault": {"Type": "AWS::Backup::BackupVault"}, "BackupPlan": {"Type": "AWS::Backup::BackupPlan"}, "BackupSelection": {"Type": "AWS::Backup::BackupSelection"}`)
	require.NoError(t, err)
}

// TestRuleSendsEventsToQueue, only those that it selects, in the form in which
// the CDK app creates rules for functions.
func TestRuleSendsEventsToQueue(t *testing.T) {
	t.Parallel()
	on, name := where(t), unique()
	_, err := make1(t, on, `
		"Bus": {"Type": "AWS::Events::EventBus", "Properties": {"Name": "`+name+`"}},
		"Queue": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "`+name+`"}},
		"Rule": {"Type": "AWS::Events::Rule", "DependsOn": ["Queue"], "Properties": {
			"Name": "`+name+`", "EventBusName": {"Ref": "Bus"}, "EventPattern": {"source": ["millrace"], "detail-type": ["run.finished"]},
			"Targets": [{"Id": "queue", "Arn": {"Fn::Sub": "arn:${AWS::Partition}:sqs:${AWS::Region}:${AWS::AccountId}:`+name+`"}}]
		}}`)
	require.NoError(t, err)
	_, err = on.EventBridge.PutEvents(t.Context(), &eventbridge.PutEventsInput{Entries: []bustypes.PutEventsRequestEntry{
		{EventBusName: &name, Source: aws.String("millrace"), DetailType: aws.String("other"), Detail: aws.String(`{}`)},
		{EventBusName: &name, Source: aws.String("millrace"), DetailType: aws.String("run.finished"), Detail: aws.String(`{"run_id": "R"}`)},
	}})
	require.NoError(t, err)
	url, err := on.SQS.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &name})
	require.NoError(t, err)
	got, err := on.SQS.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url.QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 5})
	require.NoError(t, err)
	require.Len(t, got.Messages, 1)
	assert.Contains(t, *got.Messages[0].Body, `"run_id"`)
	assert.Contains(t, *got.Messages[0].Body, `"detail-type"`)
}

// TestURLIsOpenByTwoPermissions: with only one of them Lambda answers 403.
func TestURLIsOpenByTwoPermissions(t *testing.T) {
	t.Parallel()
	on := where(t)
	const (
		url      = `"F": {"Type": "AWS::Lambda::Function", "Properties": {"FunctionName": "f"}}, "U": {"Type": "AWS::Lambda::Url", "Properties": {"TargetFunctionArn": {"Fn::GetAtt": ["F", "Arn"]}, "AuthType": "NONE"}}`
		everyone = `"FunctionName": {"Fn::GetAtt": ["F", "Arn"]}, "Principal": "*"`
		byURL    = `, "P": {"Type": "AWS::Lambda::Permission", "Properties": {"Action": "lambda:InvokeFunctionUrl", "FunctionUrlAuthType": "NONE", ` + everyone + `}}`
		invoke   = `, "Q": {"Type": "AWS::Lambda::Permission", "Properties": {"Action": "lambda:InvokeFunction", "InvokedViaFunctionUrl": true, ` + everyone + `}}`
	)
	for body, open := range map[string]bool{url: false, url + byURL: false, url + invoke: false, url + byURL + invoke: true} {
		d, err := make1(t, on, body)
		require.NoError(t, err)
		assert.Equal(t, []resources.URL{{Address: "https://f.lambda-url." + on.Region + ".on.aws", Function: "f", Open: open}}, d.URLs)
	}
}
