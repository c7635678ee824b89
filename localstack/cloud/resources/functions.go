package resources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/localstack/cloud/template"
)

type functionProperties struct {
	FunctionName, Runtime, Handler string
	Timeout                        int // seconds
	Environment                    struct{ Variables map[string]string }
	TenancyConfig                  *struct{ TenantIsolationMode string }
	ReservedConcurrentExecutions   int
}

// function describes a function. Its code is this machine's own build of the
// same sources; how much memory it has and where it logs has no effect here.
func (m *maker) function(_ context.Context, r *template.Resource, properties map[string]any) (template.Attributes, error) {
	p, err := decode[functionProperties](properties, "Architectures", "Code", "Description", "EphemeralStorage", "LoggingConfig", "MemorySize",
		"RecursiveLoop", "Role", "TracingConfig", "KmsKeyArn", "RuntimeManagementConfig")
	if err != nil {
		return template.Attributes{}, err
	}
	f := Function{
		Name: cmp.Or(p.FunctionName, r.PhysicalName()), Runtime: p.Runtime, Handler: p.Handler, Environment: p.Environment.Variables,
		Timeout: time.Duration(cmp.Or(p.Timeout, 3)) * time.Second, Most: p.ReservedConcurrentExecutions,
	}
	if t := p.TenancyConfig; t != nil {
		if t.TenantIsolationMode != "PER_TENANT" {
			return template.Attributes{}, fmt.Errorf("the tenant isolation mode %q is not known here", t.TenantIsolationMode)
		}
		f.Tenants = true
	}
	f.ARN = m.arn("lambda", "function:"+f.Name)
	m.out.Functions = append(m.out.Functions, f)
	return template.Attributes{Ref: f.Name, Att: map[string]string{"Arn": f.ARN}}, nil
}

// version is the function itself: here is but one.
func (m *maker) version(_ context.Context, _ *template.Resource, properties map[string]any) (template.Attributes, error) {
	p, err := decode[struct{ FunctionName string }](properties, "Description", "CodeSha256")
	if err != nil {
		return template.Attributes{}, err
	}
	arn := m.arn("lambda", "function:"+functionName(p.FunctionName)+":1")
	return template.Attributes{Ref: arn, Att: map[string]string{"Version": "1", "FunctionArn": arn}}, nil
}

func (m *maker) alias(_ context.Context, _ *template.Resource, properties map[string]any) (template.Attributes, error) {
	p, err := decode[struct{ FunctionName, Name string }](properties, "Description", "FunctionVersion", "ProvisionedConcurrencyConfig", "RoutingConfig")
	if err != nil {
		return template.Attributes{}, err
	}
	arn := m.arn("lambda", "function:"+functionName(p.FunctionName)+":"+p.Name)
	return template.Attributes{Ref: arn, Att: map[string]string{"AliasArn": arn}}, nil
}

// functionName is the name in a name, name:version or ARN.
func functionName(s string) string {
	if _, after, found := strings.Cut(s, ":function:"); found {
		s = after
	}
	name, _, _ := strings.Cut(s, ":")
	return name
}

type mappingProperties struct {
	EventSourceArn, FunctionName string
	BatchSize                    int
	FunctionResponseTypes        []string
	ScalingConfig                struct{ MaximumConcurrency int }
	Enabled                      *bool
}

// mapping describes an event source mapping of a queue. What is there is handed
// over at once.
func (m *maker) mapping(_ context.Context, r *template.Resource, properties map[string]any) (template.Attributes, error) {
	p, err := decode[mappingProperties](properties, "MaximumBatchingWindowInSeconds", "MetricsConfig")
	if err != nil {
		return template.Attributes{}, err
	}
	queue, is := strings.CutPrefix(p.EventSourceArn, m.arn("sqs", ""))
	if !is {
		return template.Attributes{}, fmt.Errorf("%s is no queue of this deployment", p.EventSourceArn)
	}
	if p.BatchSize > 10 {
		return template.Attributes{}, errors.New("batches of more than 10 messages are not known here")
	}
	if p.Enabled == nil || *p.Enabled {
		m.out.Mappings = append(m.out.Mappings, Mapping{
			Queue: queue, Function: functionName(p.FunctionName), Batch: cmp.Or(p.BatchSize, 10),
			Most:    p.ScalingConfig.MaximumConcurrency,
			Partial: slices.Contains(p.FunctionResponseTypes, "ReportBatchItemFailures"),
		})
	}
	return template.Attributes{Ref: r.PhysicalName(), Att: map[string]string{"Id": r.PhysicalName()}}, nil
}
