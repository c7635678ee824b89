package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/shared/web/gateway"
	"millrace/shared/web/httpapi"
)

func (d deployment) paths(t *testing.T) object {
	t.Helper()
	list := d.service.of("ApiGateway::RestApi")
	require.Len(t, list, 1)
	return list[0].properties["Body"].(object)["paths"].(object)
}

var invoked = regexp.MustCompile(`^arn:\$\{AWS::Partition\}:apigateway:\$\{AWS::Region\}:lambda:path/(2015-03-31|2021-11-15)` +
	`/functions/arn:\$\{AWS::Partition\}:lambda:\$\{AWS::Region\}:\$\{AWS::AccountId\}:function:([a-z0-9-]+):live/(invocations|response-streaming-invocations)$`)

// TestEveryRouteReachesItsFunction compares the API with the catalog, from
// which the embedded server mounts its routes.
func TestEveryRouteReachesItsFunction(t *testing.T) {
	t.Parallel()
	d := deployed(t)
	paths := d.paths(t)
	operations := catalog.Operations(catalog.Routed(catalog.All()))
	of := map[string][]httpapi.Operation{}
	for _, op := range operations {
		of[op.Function] = append(of[op.Function], op.Operation)
	}
	for _, op := range operations {
		item, _ := paths[op.Path].(object)
		route, found := item[strings.ToLower(op.Method)].(object)
		require.True(t, found, "%s %s has no route", op.Method, op.Path)
		assert.Equal(t, op.ID, route["operationId"])
		integration := route["x-amazon-apigateway-integration"].(object)
		assert.Equal(t, []any{"aws_proxy", "POST"}, []any{integration["type"], integration["httpMethod"]})
		parts := invoked.FindStringSubmatch(text(integration["uri"]))
		require.NotNil(t, parts, "%s %s: %s", op.Method, op.Path, text(integration["uri"]))
		function, found := d.service.named("Lambda::Function", "FunctionName", parts[2])
		require.True(t, found, "%s %s reaches %s", op.Method, op.Path, parts[2])
		assert.Equal(t, op.Function, function.properties["Handler"], "%s %s", op.Method, op.Path)
		assert.True(t, d.mayBeInvoked(function.id), "the API may not invoke %s", function.id)

		timeout := number(integration["timeoutInMillis"])
		assert.LessOrEqual(t, timeout, 1000*number(function.properties["Timeout"]), op.ID)
		if gateway.Streams(of[op.Function]) {
			assert.Equal(t, []any{"2021-11-15", "response-streaming-invocations", "STREAM"}, []any{parts[1], parts[3], integration["responseTransferMode"]}, op.ID)
			assert.LessOrEqual(t, timeout, 900_000.0)
		} else {
			assert.Equal(t, []any{"2015-03-31", "invocations", nil}, []any{parts[1], parts[3], integration["responseTransferMode"]}, op.ID)
			assert.LessOrEqual(t, timeout, 29_000.0)
		}
	}
	count := 0
	for path, item := range paths {
		count += len(item.(object)) - 1
		unmatched, found := item.(object)[anyMethod].(object)
		require.True(t, found, "%s: other methods have no route", path)
		parts := invoked.FindStringSubmatch(text(unmatched["x-amazon-apigateway-integration"].(object)["uri"]))
		require.NotNil(t, parts, path)
		assert.Equal(t, d.cfg.name("console"), parts[2], path)
	}
	assert.Equal(t, len(operations), count, "the API has routes of no operation")
	for _, path := range []string{"/", "/{proxy+}"} {
		assert.Contains(t, paths, path)
	}
}

func (d deployment) mayBeInvoked(function string) bool {
	return slices.ContainsFunc(d.service.of("Lambda::Permission"), func(p resource) bool {
		return p.properties["Principal"] == "apigateway.amazonaws.com" && text(p.properties["FunctionName"]) == "${"+strings.TrimSuffix(function, "Function")+"Live}"
	})
}

// TestPathsAreAcceptedByAPIGateway checks that the variable segments at one
// position of the tree have one name, and are whole segments.
func TestPathsAreAcceptedByAPIGateway(t *testing.T) {
	t.Parallel()
	segment := regexp.MustCompile(`^(\{[A-Za-z0-9._$-]+\}|[A-Za-z0-9._:,-]+)$`)
	variables := map[string]string{}
	for path, item := range deployed(t).paths(t) {
		before := ""
		if path == "/" || path == "/{proxy+}" {
			continue
		}
		for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
			assert.Regexp(t, segment, part, path)
			if strings.HasPrefix(part, "{") {
				if other, found := variables[before]; found {
					assert.Equal(t, other, part, "%s has another variable beside it", path)
				}
				variables[before] = part
			}
			before += "/" + part
		}
		for method, route := range item.(object) {
			declared, _ := route.(object)["parameters"].([]any)
			assert.Len(t, declared, strings.Count(path, "{"), "%s %s", method, path)
		}
	}
}

// TestManualStopsWhatThereIs holds the commands by which an operator stops and
// starts work to the names and limits of the templates: CloudFormation does not
// undo what they change.
func TestManualStopsWhatThereIs(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(manual), "\n**Stopping work** ")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	d := deployed(t)
	for _, command := range []string{
		"events disable-rule --name $NAME-scheduler-tick", "events enable-rule --name $NAME-scheduler-tick",
		"put-function-concurrency --function-name $NAME-sandboxlogs --reserved-concurrent-executions 0",
		"get-rest-apis --query \"items[?name=='$NAME-api'].id\"", "update-stage --rest-api-id $api --stage-name " + stageName + " ",
		fmt.Sprintf("'op=replace,path=/*/*/throttling/rateLimit,value=%d' 'op=replace,path=/*/*/throttling/burstLimit,value=%d'", steadyRequests, burstRequests),
	} {
		assert.Contains(t, section, command)
	}
	_, found = d.service.named("Events::Rule", "Name", d.cfg.name("scheduler-tick"))
	assert.True(t, found)
	assert.Equal(t, d.cfg.name("api"), d.service.of("ApiGateway::RestApi")[0].properties["Name"])
	d.function(t, "sandboxlogs")
}

// forbidden matches the access log variables that contain a path, a query, a
// header value, or an error message.
var forbidden = regexp.MustCompile(`\$context\.(path|customDomain|domainName|protocol|identity|authorizer|error\.message|error\.validationErrorString|requestOverride|integrationErrorMessage)|\$input|\$stageVariables`)

func TestLogsContainNoPaths(t *testing.T) {
	t.Parallel()
	d := deployed(t)
	stages := d.service.of("ApiGateway::Stage")
	require.Len(t, stages, 1)
	stage := stages[0].properties
	format := stage["AccessLogSetting"].(object)["Format"].(string)
	assert.NotRegexp(t, forbidden, format)
	var fields map[string]string
	require.NoError(t, json.Unmarshal([]byte(format), &fields))
	assert.Equal(t, "$context.resourcePath", fields["route"])
	assert.Equal(t, "$context.requestId", fields["request_id"])
	settings := stage["MethodSettings"].([]any)
	require.Len(t, settings, 1)
	assert.Equal(t, []any{"OFF", false}, []any{settings[0].(object)["LoggingLevel"], settings[0].(object)["DataTraceEnabled"]})
	assert.NotContains(t, stage, "TracingEnabled")

	assert.Empty(t, d.service.of("WAFv2::LoggingConfiguration"))
	assert.NotContains(t, text(d.service.of("WAFv2::WebACL")[0].properties), `"SampledRequestsEnabled":true`)
	assert.NotContains(t, d.data.of("S3::Bucket")[0].properties, "LoggingConfiguration")
}

func TestFirewallProtectsAPI(t *testing.T) {
	t.Parallel()
	d := deployed(t)
	attached := d.service.of("WAFv2::WebACLAssociation")
	require.Len(t, attached, 1)
	assert.Equal(t, "${Firewall.Arn}", text(attached[0].properties["WebACLArn"]))
	assert.Equal(t, "arn:${AWS::Partition}:apigateway:${AWS::Region}::/restapis/${Api}/stages/${Stage}", text(attached[0].properties["ResourceArn"]))
	rules := d.service.of("WAFv2::WebACL")[0].properties["Rules"].([]any)
	limits := 0
	for i, r := range rules {
		assert.EqualValues(t, i+1, r.(object)["Priority"])
		if r.(object)["Statement"].(object)["RateBasedStatement"] != nil {
			limits++
			assert.Contains(t, r.(object)["Action"], "Block")
		}
	}
	assert.Equal(t, 2, limits)
	common := rules[slices.IndexFunc(rules, func(r any) bool { return r.(object)["Name"] == "AWSManagedRulesCommonRuleSet" })].(object)
	var counted []string
	for _, o := range common["Statement"].(object)["ManagedRuleGroupStatement"].(object)["RuleActionOverrides"].([]any) {
		assert.Equal(t, object{"Count": object{}}, o.(object)["ActionToUse"])
		counted = append(counted, o.(object)["Name"].(string))
	}
	assert.Subset(t, counted, []string{"RestrictedExtensions_URIPATH", "RestrictedExtensions_QUERYARGUMENTS"}, "a flow may have the name import.log")
}

// TestChangedDocumentIsDeployed: API Gateway serves a snapshot, so a changed
// document needs a new deployment.
func TestChangedDocumentIsDeployed(t *testing.T) {
	t.Parallel()
	d := deployed(t)
	fewer := slices.DeleteFunc(catalog.All(), specNamed("auth"))
	other := synth(t, d.cfg, fewer, "code")
	one, two := d.service.of("ApiGateway::Deployment"), other.service.of("ApiGateway::Deployment")
	require.Len(t, one, 1)
	require.Len(t, two, 1)
	assert.NotEqual(t, one[0].id, two[0].id)
	assert.Equal(t, "${"+two[0].id+"}", text(other.service.of("ApiGateway::Stage")[0].properties["DeploymentId"]))
}

// TestDomainIsDeployed: a change of the gateway's own endpoint takes effect with
// the next deployment of the API.
func TestDomainIsDeployed(t *testing.T) {
	t.Parallel()
	cfg := example()
	without := synth(t, cfg, few(), "code")
	cfg.Domain, cfg.Certificate = "api.acme.example", certificate
	with := synth(t, cfg, few(), "code")
	assert.NotEqual(t, without.service.of("ApiGateway::Deployment")[0].id, with.service.of("ApiGateway::Deployment")[0].id)
}

func TestDomainAndSignIn(t *testing.T) {
	t.Parallel()
	cfg := example()
	cfg.Domain, cfg.Certificate = "api.acme.example", certificate
	cfg.Issuer, cfg.Audience, cfg.SuperAdmins, cfg.AlarmEmail = "https://id.acme.example", "app", []string{"b@acme.example", "a@acme.example"}, "ops@acme.example"
	d := synth(t, cfg, catalog.All(), "code")
	domain := d.service.of("ApiGateway::DomainName")
	require.Len(t, domain, 1)
	assert.Equal(t, certificate, domain[0].properties["RegionalCertificateArn"])
	assert.Len(t, d.service.of("ApiGateway::BasePathMapping"), 1)
	assert.Equal(t, true, d.service.of("ApiGateway::RestApi")[0].properties["DisableExecuteApiEndpoint"], "the firewall's stage has one name")
	worker := d.function(t, "taskworker").properties["Environment"].(object)["Variables"].(object)
	auth := d.function(t, "auth").properties["Environment"].(object)["Variables"].(object)
	assert.Equal(t, []any{"https://id.acme.example", "app", "a@acme.example,b@acme.example"},
		[]any{auth["MILLRACE_SIGNIN_ISSUER"], auth["MILLRACE_SIGNIN_AUDIENCE"], auth["MILLRACE_SUPER_ADMINS"]})
	assert.NotContains(t, worker, "MILLRACE_SIGNIN_ISSUER", "it does not authenticate users")
	assert.Len(t, d.operations.of("SNS::Subscription"), 1)
}
