package resources

import (
	"context"
	"fmt"
	"slices"
	"time"

	"millrace/localstack/cloud/template"
)

type functionProperties struct {
	FunctionName, Runtime, Handler string
	Role                           string // ARN
	Timeout                        int    // in seconds
	MemorySize                     int    // in MB
	Environment                    struct{ Variables map[string]string }
	TenancyConfig                  struct{ TenantIsolationMode string }
}

// function describes a function. Its code is this machine's own build of the
// same sources.
func (m *maker) function(_ context.Context, p functionProperties) (template.Attributes, error) {
	f := Function{
		Name: p.FunctionName, ARN: m.arn("lambda", "function:"+p.FunctionName), Runtime: p.Runtime, Handler: p.Handler,
		Environment: p.Environment.Variables, Timeout: time.Duration(p.Timeout) * time.Second, MemoryMB: p.MemorySize, Role: p.Role,
	}
	switch p.TenancyConfig.TenantIsolationMode {
	case "":
	case "PER_TENANT":
		f.Tenants = true
	default:
		return template.Attributes{}, fmt.Errorf("the tenant isolation mode %q is not known here", p.TenancyConfig.TenantIsolationMode)
	}
	m.out.Functions = append(m.out.Functions, f)
	return template.Attributes{Ref: f.Name, ARN: f.ARN}, nil
}

// version describes the only version of a function.
func (m *maker) version(_ context.Context, p struct{ FunctionName string }) (template.Attributes, error) {
	arn := m.arn("lambda", "function:"+p.FunctionName+":1")
	return template.Attributes{Ref: arn, ARN: arn, Version: "1"}, nil
}

// alias describes an alias of a function, which is the function here.
func (m *maker) alias(_ context.Context, p struct{ Name, FunctionName, FunctionVersion string }) (template.Attributes, error) {
	if p.FunctionVersion != "1" {
		return template.Attributes{}, fmt.Errorf("the version %q is not known here", p.FunctionVersion)
	}
	name := p.FunctionName + ":" + p.Name
	m.aliases[name] = true
	arn := m.arn("lambda", "function:"+name)
	return template.Attributes{Ref: arn, ARN: arn}, nil
}

type mappingProperties struct {
	EventSourceArn, FunctionName string
	BatchSize                    int
	FunctionResponseTypes        []string
}

// mapping describes an event source mapping of a queue. Available messages are
// passed on at once.
func (m *maker) mapping(_ context.Context, p mappingProperties) (template.Attributes, error) {
	queue, err := m.queueName(p.EventSourceArn)
	if err != nil {
		return template.Attributes{}, err
	}
	if p.BatchSize < 1 || p.BatchSize > 10 {
		return template.Attributes{}, fmt.Errorf("batches of %d messages are not known here, of 1 to 10 are", p.BatchSize)
	}
	m.out.Mappings = append(m.out.Mappings, Mapping{
		Queue: queue, Function: m.functionName(p.FunctionName), Batch: p.BatchSize,
		Partial: slices.Contains(p.FunctionResponseTypes, "ReportBatchItemFailures"),
	})
	return template.Attributes{}, nil
}
