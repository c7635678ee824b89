package main

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"millrace/shared/run/sandbox/invoke"
)

// statement is one statement of a policy.
type statement struct {
	id        string
	deny      bool
	principal map[string]any // in resource policies; nil in role policies
	actions   []string
	except    []string // the statement is about all actions but these; then there are no actions
	resources []*string
	when      map[string]any // conditions
}

// document returns a policy of statements. Statements without resources are
// omitted.
func document(statements ...statement) map[string]any {
	list := []any{}
	for _, s := range statements {
		if len(s.resources) == 0 || len(s.actions)+len(s.except) == 0 {
			continue
		}
		one := map[string]any{"Sid": s.id, "Effect": "Allow", "Action": s.actions, "Resource": pointers(s.resources)}
		if len(s.except) > 0 {
			delete(one, "Action")
			one["NotAction"] = s.except
		}
		if s.deny {
			one["Effect"] = "Deny"
		}
		if s.principal != nil {
			one["Principal"] = s.principal
		}
		if s.when != nil {
			one["Condition"] = s.when
		}
		list = append(list, one)
	}
	return map[string]any{"Version": "2012-10-17", "Statement": list}
}

func pointers(list []*string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

// service returns the principal of an AWS service.
func service(name string) map[string]any { return map[string]any{"Service": name + ".amazonaws.com"} }

// trusts returns the trust policy of a role that an AWS service assumes.
func trusts(name string) map[string]any {
	return map[string]any{"Version": "2012-10-17", "Statement": []any{
		map[string]any{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": service(name)},
	}}
}

// arn returns an ARN in the deployment's account and region.
func arn(service, resource string) *string {
	return awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:"+service+":${AWS::Region}:${AWS::AccountId}:"+resource), nil)
}

// ARNs of resources that the data stack names; other stacks need no export for
// them.
func (c Config) tableARN() *string            { return arn("dynamodb", "table/"+c.table()) }
func (c Config) queueARN(name string) *string { return arn("sqs", c.queue(name)) }
func (c Config) busARN() *string              { return arn("events", "event-bus/"+c.name("bus")) }
func (c Config) aliasARN(function string) *string {
	return arn("lambda", "function:"+c.name(function)+":"+invoke.Alias)
}

// bucketName includes the account number, because bucket names are global.
func (c Config) bucketName() *string {
	return awscdk.Fn_Sub(jsii.String(c.prefix()+"${AWS::AccountId}-${AWS::Region}"), nil)
}

// bucketARN returns the ARN of the bucket, or of the objects whose keys match a
// pattern.
func (c Config) bucketARN(keys ...string) *string {
	return awscdk.Fn_Sub(jsii.String(strings.Join(append([]string{"arn:${AWS::Partition}:s3:::" + c.prefix() + "${AWS::AccountId}-${AWS::Region}"}, keys...), "/")), nil)
}
