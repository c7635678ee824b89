package main

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

	python "millrace/functions/sandbox"
	"millrace/shared/run/sandbox"
	"millrace/shared/run/tier"
	"millrace/shared/run/worker"
)

// The sandbox functions run users' code.
const (
	sandboxTimeout = 900  // seconds; Lambda's maximum
	sandboxDisk    = 2048 // MB of /tmp: the artifact zipped and unzipped, and files of the task
)

// sandboxName returns the name of a tier's function within the deployment.
func sandboxName(t tier.Tier) string { return "sandbox-" + string(t) }

// addSandbox adds a function for each tier. Lambda never shares an execution
// environment between workspaces.
//
// A task can read the credentials of the function it runs in. The role
// therefore has no permission and denies everything, in case a policy is
// attached to it by mistake. It may not even write logs, with which a task
// could bypass the masking of secrets. Logs and results go through the internal
// routes below url, code and data through presigned URLs. Without the
// permission there is no log group either.
//
// It does not deny kms:Decrypt: Lambda decrypts the environment variables with
// the role's own credentials, by a grant on the account's key aws/lambda, and a
// denial outweighs the grant, so that no sandbox would start. The deployment's
// key is denied.
//
// Their aliases move to a new version at once: most of what fails there is
// users' code, which says nothing about the version.
func addSandbox(stack awscdk.Stack, cfg Config, code *awslambda.CfnFunction_CodeProperty, url *string) {
	const decrypts = "kms:Decrypt"
	role := awsiam.NewCfnRole(stack, jsii.String("SandboxRole"), &awsiam.CfnRoleProps{
		Description:              jsii.String("Nothing: the sandbox functions run users' code"),
		AssumeRolePolicyDocument: trusts("lambda"),
		Policies: []any{&awsiam.CfnRole_PolicyProperty{PolicyName: jsii.String("nothing"), PolicyDocument: document(
			statement{id: "Nothing", deny: true, except: []string{decrypts}, resources: []*string{jsii.String("*")}},
			statement{id: "NoData", deny: true, actions: []string{decrypts}, resources: []*string{cfg.imported(keyARN)}},
		)}},
	})
	for _, t := range cfg.Tiers.All() {
		name := sandboxName(t)
		props := &awslambda.CfnFunctionProps{
			FunctionName:     jsii.String(cfg.name(name)),
			Description:      jsii.String("Runs the tasks of tier " + string(t) + ", each workspace's apart."),
			Runtime:          jsii.String("python" + sandbox.LambdaRuntime.Python),
			Architectures:    jsii.Strings(strings.TrimPrefix(sandbox.LambdaRuntime.Platform, "linux/")),
			Handler:          jsii.String(python.Handler),
			Code:             code,
			Role:             role.AttrArn(),
			MemorySize:       jsii.Number(t.MemoryMB()),
			Timeout:          jsii.Number(sandboxTimeout),
			EphemeralStorage: &awslambda.CfnFunction_EphemeralStorageProperty{Size: jsii.Number(sandboxDisk)},
			TenancyConfig:    &awslambda.CfnFunction_TenancyConfigProperty{TenantIsolationMode: jsii.String("PER_TENANT")},
			Environment: &awslambda.CfnFunction_EnvironmentProperty{Variables: map[string]*string{
				"MILLRACE_ATTEMPTS_URL": url,
			}},
		}
		function := awslambda.NewCfnFunction(stack, jsii.String(camel(name)+"Function"), props)
		// An attempt that has not begun by then is handed off anew, and one whose
		// runner failed is the engine's to repeat.
		addInvokeConfig(stack, camel(name), addAlias(stack, camel(name), function, props), worker.HandOff)
	}
}
