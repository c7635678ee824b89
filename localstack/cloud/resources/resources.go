// Package resources creates the resources of synthesized templates on one
// machine: tables, queues, buckets, buses, rules and keys in the emulated
// services; functions, event source mappings, schedules and the API as
// descriptions of what to run beside them. A kind of resource that it neither
// creates nor knows to have no counterpart is an error, as is a property that
// it neither applies nor knows to have no effect here, so that a deployment
// cannot silently differ on a laptop.
package resources

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// Services are clients of the emulated services.
type Services struct {
	DynamoDB       *dynamodb.Client
	S3             *s3.Client
	SQS            *sqs.Client
	EventBridge    *eventbridge.Client
	KMS            *kms.Client
	SecretsManager *secretsmanager.Client
}

// NewServices returns clients of the services.
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

// Function is a Lambda function of the template.
type Function struct {
	Name, ARN   string
	Role        string // ARN
	Runtime     string // provided.al2023, python3.13 …
	Handler     string
	Environment map[string]string
	Timeout     time.Duration
	MemoryMB    int  // which nothing limits here
	Tenants     bool // tenant isolation mode
}

// Mapping is an event source mapping: a queue whose messages become events of a
// function.
type Mapping struct {
	Queue    string // name
	Function string // name
	Batch    int
	Partial  bool // the function reports which messages failed
}

// Schedule is a rule that invokes a function every minute.
type Schedule struct {
	Name     string
	Function string // name
	Input    json.RawMessage
}

// API is the HTTP API.
type API struct {
	Stage     string
	Routes    []gateway.Route
	Responses map[string]gateway.Response // replace the gateway's own, by kind
}

// URL is the URL of a function, without authentication.
type URL struct {
	Address  string // as the template composes it, without a trailing slash
	Function string // name
	Open     bool   // everybody has the two permissions that it takes
}

// Address returns the API's address as the template composes it, without a
// trailing slash.
func (a API) Address(region string) string {
	return fmt.Sprintf("https://%s.execute-api.%s.%s/%s", apiID, region, template.URLSuffix, a.Stage)
}

// Deployment is the result of creating the templates' resources.
type Deployment struct {
	Functions []Function
	Mappings  []Mapping
	Schedules []Schedule
	API       API
	URLs      []URL
	Roles     map[string][]any  // documents of their policies, by ARN
	Keys      map[string]string // ARNs of the keys that encrypt resources, by the resource's ARN
	Tables    []string
	Buckets   []string
	Made      int // number of resources created or described
	Absent    int // number of resources without a counterpart
}

// Where is the environment in which resources are created.
type Where struct {
	Services
	Region, AccountID string
}

// Make creates the resources of an assembly. Errors: those of package template;
// an unknown kind or property; those of the services.
func Make(ctx context.Context, a *template.Assembly, where Where) (*Deployment, error) {
	m := &maker{
		Where: where, out: &Deployment{Roles: map[string][]any{}, Keys: map[string]string{}},
		aliases: map[string]bool{}, everybody: map[grant]bool{},
	}
	err := a.Deploy(template.Environment{Region: where.Region, AccountID: where.AccountID}, func(r *template.Resource, properties map[string]any) (template.Attributes, error) {
		if slices.Contains(absent, r.Type) {
			m.out.Absent++
			return template.Attributes{Ref: r.String(), ARN: r.String()}, nil // placeholders
		}
		m.resource = r
		do, known := kinds[r.Type]
		if !known {
			return template.Attributes{}, errors.New("resources of this kind are neither made on one machine nor known to have no counterpart there")
		}
		m.out.Made++
		made, err := do(ctx, m, properties)
		if key := keyOf(properties); err == nil && key != "" {
			m.out.Keys[cmp.Or(made.ARN, made.Ref)] = key // the reference to a secret is its ARN
		}
		return made, err
	})
	if err != nil {
		return nil, err
	}
	return m.out, m.check()
}

// maker creates the resources of one assembly.
type maker struct {
	Where
	out       *Deployment
	resource  *template.Resource // that is created
	aliases   map[string]bool    // by function:alias
	invoked   []string           // function:alias of what invokes an alias
	everybody map[grant]bool     // permissions of everybody at a function's URL
}

// grant is a permission to invoke a function.
type grant struct{ function, action string }

// check checks that all referenced functions and aliases exist, and finds which
// URLs are open.
func (m *maker) check() error {
	for _, name := range m.invoked {
		if !m.aliases[name] {
			return fmt.Errorf("resources: %s is no alias of this deployment", name)
		}
	}
	names := map[string]bool{}
	for _, f := range m.out.Functions {
		names[f.Name] = true
	}
	called := map[string]string{} // function by what invokes it
	for _, x := range m.out.Mappings {
		called["messages of "+x.Queue] = x.Function
	}
	for _, s := range m.out.Schedules {
		called["the rule "+s.Name] = s.Function
	}
	for _, r := range m.out.API.Routes {
		called[r.Method+" "+r.Path] = r.Function
	}
	for i := range m.out.URLs {
		u := &m.out.URLs[i]
		called["the URL "+u.Address] = u.Function
		u.Open = m.everybody[grant{u.Function, "lambda:InvokeFunctionUrl"}] && m.everybody[grant{u.Function, "lambda:InvokeFunction"}]
	}
	for by, name := range called {
		if !names[name] {
			return fmt.Errorf("resources: %s: %s is no function of this deployment", by, name)
		}
	}
	return nil
}

// arn returns an ARN in this deployment.
func (m *maker) arn(service, resource string) string {
	return fmt.Sprintf("arn:%s:%s:%s:%s:%s", template.Partition, service, m.Region, m.AccountID, resource)
}

// functionName returns the name in the ARN of a function or alias, or the name
// itself.
func (m *maker) functionName(s string) string {
	s, isARN := strings.CutPrefix(s, m.arn("lambda", "function:"))
	name, _, isAlias := strings.Cut(s, ":")
	if !isARN || !isAlias {
		return s
	}
	m.invoked = append(m.invoked, s)
	return name
}

// queueName returns the name in a queue's ARN.
func (m *maker) queueName(arn string) (string, error) {
	name, is := strings.CutPrefix(arn, m.arn("sqs", ""))
	if !is {
		return "", fmt.Errorf("%s is no queue of this deployment", arn)
	}
	return name, nil
}
