package main

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscodedeploy"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

	"millrace/shared/run/sandbox/invoke"
	"millrace/shared/web/fn"
)

// The ways in which new code replaces old.
const (
	canary = "canary"  // a tenth of the invocations for five minutes, then all
	atOnce = "at-once" // all
)

var rollouts = []string{canary, atOnce}

// canary reports whether new code is tried on a part of the invocations.
func (c Config) canary() bool {
	if c.Rollout == "" {
		return c.protected()
	}
	return c.Rollout == canary
}

// Thresholds of the alarms that end a rollout, in a minute.
const (
	canaryFails        = 3 // failed invocations of a function
	canaryGatewayFails = 5 // 5xx responses of the API
)

// addAlias adds the version of a function with these properties, and the alias
// that everything invokes. Another code or configuration is another resource,
// for which CloudFormation publishes a version and then deletes the one before:
// a rollback is done by then, and an account has 75 GB for the code of all
// versions.
func addAlias(stack awscdk.Stack, id string, function awslambda.CfnFunction, props *awslambda.CfnFunctionProps) awslambda.CfnAlias {
	version := awslambda.NewCfnVersion(stack, jsii.String(id+"Version"+fingerprint(stack, versioned(props))), &awslambda.CfnVersionProps{
		FunctionName: function.Ref(),
	})
	version.ApplyRemovalPolicy(awscdk.RemovalPolicy_DESTROY, nil)
	return awslambda.NewCfnAlias(stack, jsii.String(id+"Live"), &awslambda.CfnAliasProps{
		Name: jsii.String(invoke.Alias), FunctionName: function.Ref(), FunctionVersion: version.AttrVersion(),
	})
}

// versioned returns the properties of a function that belong to a version. All
// others (concurrency, loops, tags) change without one: Lambda publishes no
// version that equals the last, and CloudFormation then fails.
func versioned(props *awslambda.CfnFunctionProps) map[string]any {
	code, _ := props.Code.(*awslambda.CfnFunction_CodeProperty)
	environment, _ := props.Environment.(*awslambda.CfnFunction_EnvironmentProperty)
	out := map[string]any{
		"Code": code.S3Key, "Environment": environment.Variables, "Description": props.Description, "Runtime": props.Runtime, "Handler": props.Handler,
		"MemorySize": props.MemorySize, "Timeout": props.Timeout, "Role": props.Role,
	}
	if logging, found := props.LoggingConfig.(*awslambda.CfnFunction_LoggingConfigProperty); found {
		out["LogGroup"], out["LogFormat"] = logging.LogGroup, logging.LogFormat
		for name, level := range map[string]*string{"SystemLogLevel": logging.SystemLogLevel, "ApplicationLogLevel": logging.ApplicationLogLevel} {
			if level != nil {
				out[name] = level
			}
		}
	}
	if disk, found := props.EphemeralStorage.(*awslambda.CfnFunction_EphemeralStorageProperty); found {
		out["EphemeralStorage"] = disk.Size
	}
	return out
}

// addInvokeConfig limits the age of the events of asynchronous invocations. A
// failed one is not repeated.
func addInvokeConfig(stack awscdk.Stack, id string, alias awslambda.CfnAlias, age time.Duration) {
	awslambda.NewCfnEventInvokeConfig(stack, jsii.String(id+"Invoke"), &awslambda.CfnEventInvokeConfigProps{
		FunctionName: alias.FunctionName(), Qualifier: alias.Name(),
		MaximumEventAgeInSeconds: jsii.Number(age.Seconds()), MaximumRetryAttempts: jsii.Number(0),
	}).AddDependency(alias)
}

// rollout shifts invocations to new versions by CodeDeploy, which CloudFormation
// calls when an alias changes. An alarm during that time shifts them back and
// fails the update, which CloudFormation then rolls back. The zero rollout
// shifts all at once.
type rollout struct {
	application awscodedeploy.CfnApplication
	role        awsiam.CfnRole
	api         awscloudwatch.CfnAlarm
}

func newRollout(stack awscdk.Stack, cfg Config) rollout {
	if !cfg.canary() {
		return rollout{}
	}
	return rollout{
		application: awscodedeploy.NewCfnApplication(stack, jsii.String("Rollout"), &awscodedeploy.CfnApplicationProps{
			ApplicationName: jsii.String(cfg.name("functions")), ComputePlatform: jsii.String("Lambda"),
		}),
		role: awsiam.NewCfnRole(stack, jsii.String("RolloutRole"), &awsiam.CfnRoleProps{
			Description:              jsii.String("Lets CodeDeploy move aliases and read alarms"),
			AssumeRolePolicyDocument: trusts("codedeploy"),
			ManagedPolicyArns: &[]any{awscdk.Fn_Sub(
				jsii.String("arn:${AWS::Partition}:iam::aws:policy/service-role/AWSCodeDeployRoleForLambdaLimited"), nil)},
		}),
		api: addCanaryAlarm(stack, cfg, "Api", "Ends a rollout: the API answers with server errors.", canaryGatewayFails, gatewayMetric(cfg, "5XXError", "Sum")),
	}
}

// shift makes a function's alias move by CodeDeploy. Each function has a
// deployment group of its own, because a group has one deployment at a time.
func (r rollout) shift(stack awscdk.Stack, cfg Config, spec fn.Spec, alias awslambda.CfnAlias) {
	if r.application == nil {
		return
	}
	id, name := camel(spec.Name), cfg.name(spec.Name)
	// A tenth of one invocation a minute is nothing for minutes: the share of the
	// tick grows every minute, and one failure is enough.
	config, fails := "CodeDeployDefault.LambdaCanary10Percent5Minutes", canaryFails
	if spec.Trigger.EveryMinute {
		config, fails = "CodeDeployDefault.LambdaLinear10PercentEvery1Minute", 1
	}
	errors := metric{"AWS/Lambda", "Errors", "Sum", [][2]string{{"FunctionName", name}, {"Resource", name + ":" + invoke.Alias}}}
	alarms := []any{&awscodedeploy.CfnDeploymentGroup_AlarmProperty{
		Name: addCanaryAlarm(stack, cfg, id, "Ends a rollout: "+spec.Name+" fails.", fails, errors).Ref(),
	}}
	if spec.Trigger.HTTP {
		alarms = append(alarms, &awscodedeploy.CfnDeploymentGroup_AlarmProperty{Name: r.api.Ref()})
	}
	group := awscodedeploy.NewCfnDeploymentGroup(stack, jsii.String(id+"Rollout"), &awscodedeploy.CfnDeploymentGroupProps{
		ApplicationName: r.application.Ref(), DeploymentGroupName: jsii.String(name), ServiceRoleArn: r.role.AttrArn(),
		DeploymentConfigName: jsii.String(config),
		DeploymentStyle: &awscodedeploy.CfnDeploymentGroup_DeploymentStyleProperty{
			DeploymentType: jsii.String("BLUE_GREEN"), DeploymentOption: jsii.String("WITH_TRAFFIC_CONTROL"),
		},
		AlarmConfiguration: &awscodedeploy.CfnDeploymentGroup_AlarmConfigurationProperty{Enabled: jsii.Bool(true), Alarms: alarms},
		AutoRollbackConfiguration: &awscodedeploy.CfnDeploymentGroup_AutoRollbackConfigurationProperty{
			Enabled: jsii.Bool(true), Events: jsii.Strings("DEPLOYMENT_FAILURE", "DEPLOYMENT_STOP_ON_ALARM", "DEPLOYMENT_STOP_ON_REQUEST"),
		},
	})
	alias.CfnOptions().SetUpdatePolicy(&awscdk.CfnUpdatePolicy{CodeDeployLambdaAliasUpdate: &awscdk.CfnCodeDeployLambdaAliasUpdate{
		ApplicationName: r.application.Ref(), DeploymentGroupName: group.Ref(),
	}})
}

// addCanaryAlarm adds an alarm for rollouts. It is in the stack of the functions,
// where an update can wait for it, and notifies nobody.
func addCanaryAlarm(stack awscdk.Stack, cfg Config, id, doc string, threshold int, m metric) awscloudwatch.CfnAlarm {
	return awscloudwatch.NewCfnAlarm(stack, jsii.String(id+"Canary"), &awscloudwatch.CfnAlarmProps{
		AlarmName: jsii.String(cfg.name(id + "Canary")), AlarmDescription: jsii.String(doc),
		Namespace: jsii.String(m.namespace), MetricName: jsii.String(m.name), Statistic: jsii.String(m.statistic), Dimensions: m.properties(),
		Threshold: jsii.Number(threshold), ComparisonOperator: jsii.String("GreaterThanOrEqualToThreshold"), TreatMissingData: jsii.String("notBreaching"),
		Period: jsii.Number(time.Minute.Seconds()), EvaluationPeriods: jsii.Number(1),
	})
}
