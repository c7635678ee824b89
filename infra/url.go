package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

	"millrace/functions/sandboxlogs"
	"millrace/shared/web/fn"
)

// withoutURLs are the regions in which functions cannot have URLs.
var withoutURLs = []string{
	"ap-east-2", "ap-south-2", "ap-southeast-4", "ap-southeast-5", "ap-southeast-6", "ap-southeast-7", "ca-west-1", "eu-central-2",
	"eu-south-2", "il-central-1", "me-central-1",
}

// addURL adds the URL of a function's alias, and returns the address of the routes for
// sandboxes below it. Lambda authenticates nobody, because the role of the
// sandboxes may not sign requests: the function checks the tokens of attempts
// before it reads anything. It takes two permissions to let everybody in, and
// the second one is only for requests by the URL.
func addURL(stack awscdk.Stack, spec fn.Spec, alias awslambda.CfnAlias) *string {
	id := camel(spec.Name) + "Url"
	awslambda.NewCfnUrl(stack, jsii.String(id), &awslambda.CfnUrlProps{
		TargetFunctionArn: alias.FunctionName(), Qualifier: alias.Name(), AuthType: jsii.String("NONE"),
	}).AddDependency(alias)
	awslambda.NewCfnPermission(stack, jsii.String(camel(spec.Name)+"FromUrl"), &awslambda.CfnPermissionProps{
		Action: jsii.String("lambda:InvokeFunctionUrl"), FunctionName: alias.Ref(), Principal: jsii.String("*"),
		FunctionUrlAuthType: jsii.String("NONE"),
	})
	awslambda.NewCfnPermission(stack, jsii.String(camel(spec.Name)+"ByUrl"), &awslambda.CfnPermissionProps{
		Action: jsii.String("lambda:InvokeFunction"), FunctionName: alias.Ref(), Principal: jsii.String("*"),
		InvokedViaFunctionUrl: jsii.Bool(true),
	})
	// The URL ends with a slash.
	return awscdk.Fn_Sub(jsii.String("${"+id+".FunctionUrl}"+sandboxlogs.Prefix[1:]), nil)
}
