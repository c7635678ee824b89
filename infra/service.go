package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3assets"
	"github.com/aws/jsii-runtime-go"

	"millrace/events"
	"millrace/functions/catalog"
	"millrace/functions/sandboxlogs"
	"millrace/shared/web/fn"
)

// logDays is the retention of logs of functions and requests.
const logDays = 90

// asyncAge is the maximum age of an event that waits for a throttled function:
// a tick is stale when the next one is due.
const asyncAge = time.Minute

func addService(stack awscdk.Stack, cfg Config, specs []fn.Spec, routes routes, code code) {
	api := addAPI(stack, cfg, routes)
	signIn := addSignInClient(stack, cfg, api)
	bootstrap := newAsset(stack, "Bootstrap", code.bootstrap)
	rollout := newRollout(stack, cfg)
	walls := cfg.divide(specs)
	urls := map[string]*string{}
	for _, spec := range specs {
		alias := addFunction(stack, cfg, spec, bootstrap, api, signIn, rollout, walls)
		if spec.Trigger.HTTP {
			api.deployment.AddDependency(alias)
		}
		if spec.Trigger.OwnURL {
			urls[spec.Name] = addURL(stack, spec, alias)
		}
	}
	addSandbox(stack, cfg, newAsset(stack, "SandboxCode", code.sandbox), urls[sandboxlogs.Spec.Name])
	awscdk.NewCfnOutput(stack, jsii.String("Url"), &awscdk.CfnOutputProps{Value: api.url(""), Description: jsii.String("Where the API is")})
}

func newAsset(stack awscdk.Stack, id, path string) *awslambda.CfnFunction_CodeProperty {
	asset := awss3assets.NewAsset(stack, jsii.String(id), &awss3assets.AssetProps{Path: jsii.String(path)})
	return &awslambda.CfnFunction_CodeProperty{S3Bucket: asset.S3BucketName(), S3Key: asset.S3ObjectKey()}
}

// addFunction adds a function of the catalog and its triggers, which all invoke
// its alias.
func addFunction(stack awscdk.Stack, cfg Config, spec fn.Spec, code *awslambda.CfnFunction_CodeProperty, api api, signIn signIn, rollout rollout, walls walls) awslambda.CfnAlias {
	id := camel(spec.Name)
	logs := addLogGroup(stack, cfg, id+"Log", spec.Name)
	addAPIKey(stack, cfg, spec)
	role := awsiam.NewCfnRole(stack, jsii.String(id+"Role"), &awsiam.CfnRoleProps{
		Description:              jsii.String("What " + cfg.name(spec.Name) + " may touch"),
		AssumeRolePolicyDocument: trusts("lambda"),
		Policies: []any{&awsiam.CfnRole_PolicyProperty{
			PolicyName: jsii.String("needs"), PolicyDocument: document(permissions(cfg, spec)...),
		}},
	})
	props := &awslambda.CfnFunctionProps{
		FunctionName:  jsii.String(cfg.name(spec.Name)),
		Description:   jsii.String(spec.Doc),
		Runtime:       jsii.String("provided.al2023"),
		Architectures: jsii.Strings("arm64"),
		Handler:       jsii.String(spec.Name),
		Code:          code,
		Role:          role.AttrArn(),
		MemorySize:    jsii.Number(spec.MemoryMB),
		Timeout:       jsii.Number(spec.Timeout.Seconds()),
		Environment:   &awslambda.CfnFunction_EnvironmentProperty{Variables: environment(cfg, spec, api, signIn, walls)},
		LoggingConfig: &awslambda.CfnFunction_LoggingConfigProperty{
			LogFormat: jsii.String("JSON"), LogGroup: logs.Ref(), SystemLogLevel: systemLevel(spec), ApplicationLogLevel: applicationLevel(cfg),
		},
		RecursiveLoop: recursive(spec),

		ReservedConcurrentExecutions: walls.reserve(spec),
	}
	function := awslambda.NewCfnFunction(stack, jsii.String(id+"Function"), props)
	alias := addAlias(stack, id, function, props)
	rollout.shift(stack, cfg, spec, alias)
	for _, q := range spec.Trigger.Queues {
		if !cfg.served(q.Queue) {
			continue
		}
		addMapping(stack, cfg, spec, alias, q.Queue, q.Batch, walls)
	}
	for _, kind := range spec.Trigger.Due {
		addMapping(stack, cfg, spec, alias, kind.Queue(), eventBatch, walls)
	}
	if len(spec.Trigger.DetailTypes) > 0 {
		addMapping(stack, cfg, spec, alias, catalog.BusQueue(spec), eventBatch, walls)
	}
	if len(spec.Trigger.Objects.Events) > 0 {
		addMapping(stack, cfg, spec, alias, events.ObjectQueue, eventBatch, walls)
	}
	if spec.Trigger.EveryMinute {
		addEveryMinute(stack, cfg, spec, alias, events.SchedulerTick{EventType: events.TickType, MaxDue: maxDue})
	}
	if spec.Trigger.Probe {
		addEveryMinute(stack, cfg, spec, alias, struct{}{})
	}
	if spec.Trigger.HTTP && !spec.Trigger.OwnURL {
		awslambda.NewCfnPermission(stack, jsii.String(id+"FromApi"), &awslambda.CfnPermissionProps{
			Action: jsii.String("lambda:InvokeFunction"), FunctionName: alias.Ref(), Principal: jsii.String("apigateway.amazonaws.com"),
			SourceArn: awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:execute-api:${AWS::Region}:${AWS::AccountId}:${Api}/"+stageName+"/*"), nil),
		})
	}
	return alias
}

// systemLevel returns the level of Lambda's own log lines. The requests of
// sandboxes are many: of these, it writes no line for the start and the end.
func systemLevel(spec fn.Spec) *string {
	if !spec.Trigger.OwnURL {
		return nil // Lambda's default: INFO
	}
	return jsii.String("WARN")
}

// applicationLevel returns the level of a function's lines from which Lambda
// stores them. Functions leave out the lines below their own level, so it is lower
// than Lambda's default where theirs is; metrics have no level, and pass any.
func applicationLevel(cfg Config) *string {
	if cfg.LogLevel != "debug" {
		return nil // Lambda's default: INFO
	}
	return jsii.String("DEBUG")
}

// eventBatch is the number of due entries, bus events or bucket events in one
// invocation.
const eventBatch = 10

// recursive returns the setting for a function that is invoked by its own
// messages. The work of a run goes from queue to queue, so Lambda would take a
// long chain of tasks for a runaway loop and stop it after sixteen rounds. The
// run's own record bounds the chain.
func recursive(spec fn.Spec) *string {
	if len(spec.Needs.Send) == 0 && !spec.Needs.Publish {
		return nil // Lambda's default: Terminate
	}
	return jsii.String("Allow")
}

func addLogGroup(stack awscdk.Stack, cfg Config, id, name string) awslogs.CfnLogGroup {
	group := awslogs.NewCfnLogGroup(stack, jsii.String(id), &awslogs.CfnLogGroupProps{
		LogGroupName: jsii.String(cfg.logGroup(name)), RetentionInDays: jsii.Number(logDays), KmsKeyId: cfg.imported(keyARN),
	})
	group.ApplyRemovalPolicy(awscdk.RemovalPolicy_DESTROY, nil)
	return group
}

// addMapping triggers a function by a queue. Only failed messages of a batch
// are delivered again.
func addMapping(stack awscdk.Stack, cfg Config, spec fn.Spec, alias awslambda.CfnAlias, queue string, batch int, walls walls) {
	awslambda.NewCfnEventSourceMapping(stack, jsii.String(camel(spec.Name)+"From"+camel(queue)), &awslambda.CfnEventSourceMappingProps{
		FunctionName: alias.Ref(), EventSourceArn: cfg.queueARN(queue), BatchSize: jsii.Number(batch),
		FunctionResponseTypes: jsii.Strings("ReportBatchItemFailures"), ScalingConfig: walls.scaling(queue),
	})
}

// maxDue is the most entries of a tick: what it hands out within its minute.
const maxDue = 100_000

// addEveryMinute invokes a function every minute with an event.
func addEveryMinute(stack awscdk.Stack, cfg Config, spec fn.Spec, alias awslambda.CfnAlias, event any) {
	id := camel(spec.Name)
	input, err := json.Marshal(event)
	if err != nil {
		panic(fmt.Sprintf("infra: the event of %s does not marshal: %v", spec.Name, err)) // only strings and numbers
	}
	rule := awsevents.NewCfnRule(stack, jsii.String(id+"EveryMinute"), &awsevents.CfnRuleProps{
		Name: jsii.String(cfg.name(spec.Name)), Description: jsii.String(spec.Doc), ScheduleExpression: jsii.String("rate(1 minute)"),
		Targets: []any{&awsevents.CfnRule_TargetProperty{
			Id: jsii.String("function"), Arn: alias.Ref(), Input: jsii.String(string(input)),
			RetryPolicy: &awsevents.CfnRule_RetryPolicyProperty{
				MaximumEventAgeInSeconds: jsii.Number(asyncAge.Seconds()), MaximumRetryAttempts: jsii.Number(1),
			},
		}},
	})
	awslambda.NewCfnPermission(stack, jsii.String(id+"FromRule"), &awslambda.CfnPermissionProps{
		Action: jsii.String("lambda:InvokeFunction"), FunctionName: alias.Ref(), Principal: jsii.String("events.amazonaws.com"),
		SourceArn: rule.AttrArn(),
	})
	// A failed invocation is not retried: the next one comes within a minute, and a
	// tick handles everything that is still due.
	addInvokeConfig(stack, id, alias, asyncAge)
}

func join(list []string) string { return strings.Join(slices.Sorted(slices.Values(list)), ",") }
