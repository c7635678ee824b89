// Package resources makes the resources of synthesized templates on one machine:
// tables, queues, buckets, buses, rules and keys in the services that stand in
// for AWS's; functions, event source mappings, schedules and the API as
// descriptions of what is to be run beside them. A kind of resource that it
// neither makes nor knows to have no counterpart is an error, and so is a
// property that it neither applies nor knows to be without effect here: what is
// deployed cannot come to mean something else on a laptop unnoticed.
package resources

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"millrace/localstack/cloud/gateway"
	"millrace/localstack/cloud/template"
	"millrace/localstack/emulators"
)

// Services are clients of what stands in for AWS.
type Services struct {
	DynamoDB       *dynamodb.Client
	S3             *s3.Client
	SQS            *sqs.Client
	EventBridge    *eventbridge.Client
	KMS            *kms.Client
	SecretsManager *secretsmanager.Client
}

// NewServices returns clients of the services where they are.
func NewServices(on *emulators.Services) Services {
	return Services{
		DynamoDB:       dynamodb.NewFromConfig(on.DynamoDB.Config()),
		S3:             s3.NewFromConfig(on.S3.Config(), func(o *s3.Options) { o.UsePathStyle = true }),
		SQS:            sqs.NewFromConfig(on.SQS.Config()),
		EventBridge:    eventbridge.NewFromConfig(on.EventBridge.Config()),
		KMS:            kms.NewFromConfig(on.KMS.Config()),
		SecretsManager: secretsmanager.NewFromConfig(on.SecretsManager.Config()),
	}
}

// Function is a Lambda function as the template has it.
type Function struct {
	Name, ARN   string
	Runtime     string // provided.al2023, python3.13 …
	Handler     string
	Environment map[string]string
	Timeout     time.Duration
	Tenants     bool // in tenant isolation mode
	Most        int  // reserved concurrency; 0: none
}

// Mapping is an event source mapping: messages of a queue that become events.
type Mapping struct {
	Queue    string // name
	Function string // name
	Batch    int
	Most     int  // batches at once; 0: no bound
	Partial  bool // the function tells which messages failed
	// Rule: the messages are events of a bus on their way to a function, which
	// gets each as it is, or Input in its place.
	Rule  bool
	Input json.RawMessage
}

// Schedule is a rule that fires by the clock.
type Schedule struct {
	Name     string
	Every    time.Duration
	Function string          // name
	Input    json.RawMessage // nil: an event that says when
}

// API is the HTTP API.
type API struct {
	ID        string // as addresses name it
	Stage     string
	Routes    []gateway.Route
	Responses map[string]gateway.Response // the gateway's own, by kind
}

// Address is what the template makes of the API's address, without a slash at
// its end.
func (a API) Address(region string) string {
	return fmt.Sprintf("https://%s.execute-api.%s.%s/%s", a.ID, region, template.URLSuffix, a.Stage)
}

// Deployment is what the templates describe.
type Deployment struct {
	Functions []Function
	Mappings  []Mapping
	Schedules []Schedule
	API       API
	Tables    []string
	Buckets   []string
	Made      []string       // resources that exist in the services
	Absent    map[string]int // resources without counterpart, by kind
}

// Where is what the resources are made in.
type Where struct {
	Services
	Region, AccountID string
	Parameters        map[string]string // of the templates
}

// Make makes the resources of an assembly. Errors: template's; a kind or a
// property that is not known; those of the services.
func Make(ctx context.Context, a *template.Assembly, where Where) (*Deployment, error) {
	m := &maker{Where: where, out: &Deployment{Absent: map[string]int{}}, secrets: map[string]string{}}
	_, err := a.Deploy(ctx, template.Environment{
		Region: where.Region, AccountID: where.AccountID, Parameters: where.Parameters, Dynamic: m.dynamic,
	}, m.resource)
	if err != nil {
		return nil, err
	}
	return m.out, m.check()
}

// maker makes the resources of one assembly.
type maker struct {
	Where
	out     *Deployment
	secrets map[string]string // values by ARN
}

type kind func(m *maker, ctx context.Context, r *template.Resource, properties map[string]any) (template.Attributes, error)

// kinds are what is made or described.
func kinds() map[string]kind {
	return map[string]kind{
		"AWS::DynamoDB::Table":            (*maker).table,
		"AWS::SQS::Queue":                 (*maker).queue,
		"AWS::S3::Bucket":                 (*maker).bucket,
		"AWS::KMS::Key":                   (*maker).key,
		"AWS::KMS::Alias":                 (*maker).keyAlias,
		"AWS::SecretsManager::Secret":     (*maker).secret,
		"AWS::Events::EventBus":           (*maker).bus,
		"AWS::Events::Rule":               (*maker).rule,
		"AWS::Lambda::Function":           (*maker).function,
		"AWS::Lambda::Version":            (*maker).version,
		"AWS::Lambda::Alias":              (*maker).alias,
		"AWS::Lambda::EventSourceMapping": (*maker).mapping,
		"AWS::ApiGateway::RestApi":        (*maker).restAPI,
		"AWS::ApiGateway::Stage":          (*maker).stage,
	}
}

func (m *maker) resource(ctx context.Context, r *template.Resource, properties map[string]any) (template.Attributes, error) {
	if do, known := kinds()[r.Type]; known {
		return do(m, ctx, r, properties)
	}
	if _, known := absent[r.Type]; known {
		m.out.Absent[r.Type]++
		return m.placeholder(r, properties), nil
	}
	return template.Attributes{}, fmt.Errorf("resources of the kind %s are neither made on one machine nor known to have no counterpart there", r.Type)
}

// check holds that what refers to each other is there.
func (m *maker) check() error {
	names := map[string]bool{}
	for _, f := range m.out.Functions {
		names[f.Name] = true
	}
	for _, x := range m.out.Mappings {
		if !names[x.Function] {
			return fmt.Errorf("resources: the messages of %s go to %s, which is no function", x.Queue, x.Function)
		}
	}
	for _, s := range m.out.Schedules {
		if !names[s.Function] {
			return fmt.Errorf("resources: the rule %s fires %s, which is no function", s.Name, s.Function)
		}
	}
	for _, r := range m.out.API.Routes {
		if !names[r.Function] {
			return fmt.Errorf("resources: %s %s goes to %s, which is no function", r.Method, r.Path, r.Function)
		}
	}
	return nil
}

// made notes a resource that exists in the services.
func (m *maker) made(r *template.Resource, name string) {
	m.out.Made = append(m.out.Made, r.Type+" "+name)
}

// arn is the ARN of something of this deployment.
func (m *maker) arn(service, resource string) string {
	return fmt.Sprintf("arn:%s:%s:%s:%s:%s", template.Partition, service, m.Region, m.AccountID, resource)
}

// decode reads properties into a struct that has those that are applied; those
// named besides are without effect on one machine, all others an error.
func decode[T any](properties map[string]any, without ...string) (T, error) {
	var out T
	rest := maps.Clone(properties)
	for _, name := range append(without, "Tags") {
		delete(rest, name)
	}
	data, err := json.Marshal(rest)
	if err != nil {
		return out, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&out); err != nil {
		return out, fmt.Errorf("properties %v: %w", slices.Sorted(maps.Keys(rest)), err)
	}
	return out, nil
}
