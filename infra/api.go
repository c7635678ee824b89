package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awswafv2"
	"github.com/aws/jsii-runtime-go"
)

// stageName is the API's only stage. It is the first segment of paths unless
// the API has its own domain.
const stageName = "v1"

// The gateway's total limits in requests a second and in a burst, so that no
// flood uses up the account's Lambda concurrency.
const (
	steadyRequests = 1000
	burstRequests  = 2000
)

// accessLog names the logged fields of a request. The route is logged instead
// of the path: paths contain names of tenants' flows and secret tokens of
// webhooks.
var accessLog = map[string]string{
	"request_id":         "$context.requestId",
	"time":               "$context.requestTimeEpoch",
	"method":             "$context.httpMethod",
	"route":              "$context.resourcePath",
	"status":             "$context.status",
	"answer_bytes":       "$context.responseLength",
	"latency_ms":         "$context.responseLatency",
	"function_status":    "$context.integration.status",
	"function_latency":   "$context.integration.latency",
	"function_error":     "$context.integration.error",
	"gateway_error":      "$context.error.responseType",
	"firewall":           "$context.waf.status",
	"function_requestid": "$context.integration.requestId",
}

// api is what other resources need of the API.
type api struct {
	url        func(path string) *string // of a path that begins with a slash, or of ""
	deployment awsapigateway.CfnDeployment
}

func addAPI(stack awscdk.Stack, cfg Config, routes routes) api {
	body := routes.body(cfg)
	rest := awsapigateway.NewCfnRestApi(stack, jsii.String("Api"), &awsapigateway.CfnRestApiProps{
		Name: jsii.String(cfg.name("api")), Body: body, FailOnWarnings: jsii.Bool(false),
		// The gateway would make a documentation part of every described operation and
		// response, of which an API may have 2,000. It serves none of them.
		Parameters:                &map[string]*string{"ignore": jsii.String("documentation")},
		EndpointConfiguration:     &awsapigateway.CfnRestApi_EndpointConfigurationProperty{Types: jsii.Strings("REGIONAL")},
		DisableExecuteApiEndpoint: jsii.Bool(cfg.Domain != ""),
	})
	// A deployment is a snapshot of the API, so another document needs another
	// one. So does the endpoint of the gateway: until its stage changes it stays
	// closed, or open, beside the firewall of the domain. It depends on the
	// functions' aliases: a new route is served once the code behind it is.
	snapshot := map[string]any{"document": body, "closed": cfg.Domain != ""}
	deployment := awsapigateway.NewCfnDeployment(stack, jsii.String("Deployment"+fingerprint(stack, snapshot)), &awsapigateway.CfnDeploymentProps{
		RestApiId: rest.Ref(), Description: jsii.String("Of the document with this id"),
	})
	account := addGatewayAccount(stack)
	logs := addLogGroup(stack, cfg, "AccessLog", "access")
	format, err := json.Marshal(accessLog)
	if err != nil {
		panic(fmt.Sprintf("infra: the form of the access log does not marshal: %v", err)) // only strings
	}
	staged := awsapigateway.NewCfnStage(stack, jsii.String("Stage"), &awsapigateway.CfnStageProps{
		RestApiId: rest.Ref(), DeploymentId: deployment.Ref(), StageName: jsii.String(stageName),
		AccessLogSetting: &awsapigateway.CfnStage_AccessLogSettingProperty{DestinationArn: logs.AttrArn(), Format: jsii.String(string(format))},
		// The gateway's execution log would contain paths and bodies.
		MethodSettings: []any{&awsapigateway.CfnStage_MethodSettingProperty{
			HttpMethod: jsii.String("*"), ResourcePath: jsii.String("/*"),
			LoggingLevel: jsii.String("OFF"), DataTraceEnabled: jsii.Bool(false), MetricsEnabled: jsii.Bool(false),
			ThrottlingRateLimit: jsii.Number(steadyRequests), ThrottlingBurstLimit: jsii.Number(burstRequests),
		}},
	})
	staged.AddDependency(account)
	acl := addFirewall(stack, cfg)
	awswafv2.NewCfnWebACLAssociation(stack, jsii.String("FirewallOfStage"), &awswafv2.CfnWebACLAssociationProps{
		WebAclArn:   acl.AttrArn(),
		ResourceArn: awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:apigateway:${AWS::Region}::/restapis/${Api}/stages/${Stage}"), nil),
	})
	if cfg.Domain == "" {
		return api{deployment: deployment, url: func(path string) *string {
			return awscdk.Fn_Sub(jsii.String("https://${Api}.execute-api.${AWS::Region}.${AWS::URLSuffix}/"+stageName+path), nil)
		}}
	}
	domain := awsapigateway.NewCfnDomainName(stack, jsii.String("Domain"), &awsapigateway.CfnDomainNameProps{
		DomainName: jsii.String(cfg.Domain), RegionalCertificateArn: jsii.String(cfg.Certificate), SecurityPolicy: jsii.String("TLS_1_2"),
		EndpointConfiguration: &awsapigateway.CfnDomainName_EndpointConfigurationProperty{Types: jsii.Strings("REGIONAL")},
	})
	awsapigateway.NewCfnBasePathMapping(stack, jsii.String("DomainOfStage"), &awsapigateway.CfnBasePathMappingProps{
		DomainName: domain.Ref(), RestApiId: rest.Ref(), Stage: staged.Ref(),
	})
	awscdk.NewCfnOutput(stack, jsii.String("DomainTarget"), &awscdk.CfnOutputProps{
		Value: domain.AttrRegionalDomainName(), Description: jsii.String("What the domain's DNS record points to"),
	})
	return api{deployment: deployment, url: func(path string) *string { return jsii.String("https://" + cfg.Domain + path) }}
}

// fingerprint returns a hash of a part of the template.
func fingerprint(stack awscdk.Stack, part map[string]any) string {
	data, err := json.Marshal(stack.Resolve(part))
	if err != nil {
		panic(fmt.Sprintf("infra: a part of the template does not marshal: %v", err)) // it is JSON
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:4])
}

// addGatewayAccount lets API Gateway write logs. The setting belongs to the
// account in a region and is shared by all of its deployments, so it remains
// when one of them is deleted.
func addGatewayAccount(stack awscdk.Stack) awsapigateway.CfnAccount {
	role := awsiam.NewCfnRole(stack, jsii.String("GatewayLogRole"), &awsiam.CfnRoleProps{
		Description:              jsii.String("Lets API Gateway write access logs"),
		AssumeRolePolicyDocument: trusts("apigateway"),
		ManagedPolicyArns: &[]any{awscdk.Fn_Sub(
			jsii.String("arn:${AWS::Partition}:iam::aws:policy/service-role/AmazonAPIGatewayPushToCloudWatchLogs"), nil)},
	})
	role.ApplyRemovalPolicy(awscdk.RemovalPolicy_RETAIN, nil)
	account := awsapigateway.NewCfnAccount(stack, jsii.String("GatewayAccount"), &awsapigateway.CfnAccountProps{CloudWatchRoleArn: role.AttrArn()})
	account.ApplyRemovalPolicy(awscdk.RemovalPolicy_RETAIN, nil)
	return account
}
