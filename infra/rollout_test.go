package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/shared/run/tier"
	"millrace/shared/web/fn"
)

// TestFunctionsAreInvokedByAlias checks that no trigger, permission or role
// names a function itself, whose code changes while an update runs.
func TestFunctionsAreInvokedByAlias(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d deployment) {
		functions := map[string]bool{}
		for _, f := range d.service.of("Lambda::Function") {
			functions[f.id] = true
		}
		aliases, versions := map[string]bool{}, map[string]bool{}
		for _, v := range d.service.of("Lambda::Version") {
			versions["${"+v.id+".Version}"] = true
			assert.Equal(t, []any{"Delete", "Delete"}, []any{v.all["DeletionPolicy"], v.all["UpdateReplacePolicy"]}, v.id)
		}
		for _, a := range d.service.of("Lambda::Alias") {
			aliases["${"+a.id+"}"] = true
			assert.Equal(t, "live", a.properties["Name"])
			assert.True(t, functions[strings.Trim(text(a.properties["FunctionName"]), "${}")], a.id)
			assert.True(t, versions[text(a.properties["FunctionVersion"])], a.id)
		}
		assert.Len(t, aliases, len(functions))
		assert.Len(t, versions, len(functions))
		for _, m := range append(d.service.of("Lambda::EventSourceMapping"), d.service.of("Lambda::Permission")...) {
			assert.True(t, aliases[text(m.properties["FunctionName"])], "%s: %s", m.id, text(m.properties["FunctionName"]))
		}
		for _, r := range d.service.of("Events::Rule") {
			assert.True(t, aliases[text(r.properties["Targets"].([]any)[0].(object)["Arn"])], r.id)
		}
		for _, c := range d.service.of("Lambda::EventInvokeConfig") {
			assert.Equal(t, "live", c.properties["Qualifier"], c.id)
			assert.Equal(t, []any{strings.TrimSuffix(c.id, "Invoke") + "Live"}, c.all["DependsOn"])
		}
		for where, statements := range d.service.policyStatements() {
			for _, s := range statements {
				if texts(s["Action"])[0] == "lambda:InvokeFunction" {
					for _, res := range texts(s["Resource"]) {
						assert.True(t, strings.HasSuffix(res, ":live"), "%s: %s", where, res)
					}
				}
			}
		}
	})
}

// few returns two functions of the catalog, for deployments that are made
// quickly.
func few() []fn.Spec {
	return slices.DeleteFunc(catalog.All(), func(s fn.Spec) bool { return !slices.Contains([]string{"runs", "auth", "sandboxlogs"}, s.Name) })
}

// TestChangeOfFunctionMakesVersion checks that code and settings make another
// version, and that what is no part of a version does not: Lambda would publish
// nothing, and CloudFormation would fail.
func TestChangeOfFunctionMakesVersion(t *testing.T) {
	t.Parallel()
	cfg := example()
	before := synth(t, cfg, few(), "code")
	of := func(d deployment, id string) string {
		for _, v := range d.service.of("Lambda::Version") {
			if strings.HasPrefix(v.id, id+"Version") {
				return v.id
			}
		}
		return ""
	}
	code := synth(t, cfg, few(), "other code")
	for _, f := range before.service.of("Lambda::Function") {
		id := strings.TrimSuffix(f.id, "Function")
		require.NotEmpty(t, of(before, id), id)
		assert.NotEqual(t, of(before, id), of(code, id), "the code of %s", id)
	}
	changed := func(change func(*fn.Spec)) deployment {
		specs := few()
		for i := range specs {
			if specs[i].Name == "runs" {
				change(&specs[i])
			}
		}
		return synth(t, cfg, specs, "code")
	}
	larger := changed(func(s *fn.Spec) { s.MemoryMB++ })
	assert.NotEqual(t, of(before, "Runs"), of(larger, "Runs"))
	assert.Equal(t, of(before, "Auth"), of(larger, "Auth"), "it is as it was")
	permitted := changed(func(s *fn.Spec) { s.Needs.Measure = append(s.Needs.Measure, "runs") })
	assert.NotEqual(t, before.service.json, permitted.service.json)
	assert.Equal(t, of(before, "Runs"), of(permitted, "Runs"), "what a role permits is no part of a version")
}

// TestLevelsOfLogsArePartOfAVersion: the alias serves a version, so a level that
// made none would apply to nothing.
func TestLevelsOfLogsArePartOfAVersion(t *testing.T) {
	t.Parallel()
	with := func(system, application *string) map[string]any {
		return versioned(&awslambda.CfnFunctionProps{
			Code:          &awslambda.CfnFunction_CodeProperty{},
			Environment:   &awslambda.CfnFunction_EnvironmentProperty{},
			LoggingConfig: &awslambda.CfnFunction_LoggingConfigProperty{SystemLogLevel: system, ApplicationLogLevel: application},
		})
	}
	level := jsii.String("WARN")
	assert.Equal(t, with(nil, nil), with(nil, nil))
	assert.NotEqual(t, with(nil, nil), with(level, nil))
	assert.NotEqual(t, with(nil, nil), with(nil, level))
}

// TestRolloutEndsByAlarm checks that CodeDeploy moves each alias of the catalog
// by its own group, and stops when an alarm of that function fires.
func TestRolloutEndsByAlarm(t *testing.T) {
	t.Parallel()
	d := deployed(t)
	alarms := map[string]object{}
	for _, a := range d.service.of("CloudWatch::Alarm") {
		alarms["${"+a.id+"}"] = a.properties
		assert.Equal(t, "notBreaching", a.properties["TreatMissingData"], a.id)
		assert.EqualValues(t, 60, a.properties["Period"], "%s fires while the new version has a tenth", a.id)
	}
	groups := map[string]object{}
	for _, g := range d.service.of("CodeDeploy::DeploymentGroup") {
		groups["${"+g.id+"}"] = g.properties
	}
	assert.Len(t, groups, len(d.specs))
	for _, s := range d.specs {
		alias, found := d.service.named("Lambda::Alias", "FunctionName", "${"+camel(s.Name)+"Function}")
		require.True(t, found)
		policy, _ := alias.all["UpdatePolicy"].(object)["CodeDeployLambdaAliasUpdate"].(object)
		group := groups[text(policy["DeploymentGroupName"])]
		require.NotNil(t, group, s.Name)
		delete(groups, text(policy["DeploymentGroupName"]))
		assert.Equal(t, text(policy["ApplicationName"]), text(group["ApplicationName"]))
		want := "CodeDeployDefault.LambdaCanary10Percent5Minutes"
		if s.Trigger.EveryMinute {
			want = "CodeDeployDefault.LambdaLinear10PercentEvery1Minute"
		}
		assert.Equal(t, want, group["DeploymentConfigName"])
		assert.Equal(t, object{"Enabled": true, "Events": []any{"DEPLOYMENT_FAILURE", "DEPLOYMENT_STOP_ON_ALARM", "DEPLOYMENT_STOP_ON_REQUEST"}}, group["AutoRollbackConfiguration"])
		watched := group["AlarmConfiguration"].(object)["Alarms"].([]any)
		errors := alarms[text(watched[0].(object)["Name"])]
		assert.Equal(t, []any{"AWS/Lambda", "Errors"}, []any{errors["Namespace"], errors["MetricName"]}, s.Name)
		assert.Contains(t, errors["Dimensions"], object{"Name": "Resource", "Value": d.cfg.name(s.Name) + ":live"})
		assert.Equal(t, s.Trigger.HTTP, len(watched) == 2, s.Name)
		if s.Trigger.HTTP {
			assert.Equal(t, "5XXError", alarms[text(watched[1].(object)["Name"])]["MetricName"])
		}
	}
	for _, one := range tier.All() {
		alias, found := d.service.named("Lambda::Alias", "FunctionName", "${"+camel(sandboxName(one))+"Function}")
		require.True(t, found)
		assert.NotContains(t, alias.all, "UpdatePolicy", "what fails there is users' code")
	}
}

func TestRolloutAtOnce(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{
		"by setting": {Tenant: "acme", Region: "eu-west-1", Stage: "prod", Rollout: "at-once"},
		"in dev":     {Tenant: "acme", Region: "eu-west-1", Stage: "dev"},
	} {
		d := synth(t, cfg, few(), "code")
		assert.Empty(t, d.service.of("CodeDeploy::DeploymentGroup"), name)
		for _, a := range d.service.of("Lambda::Alias") {
			assert.NotContains(t, a.all, "UpdatePolicy", name)
		}
	}
}

// TestNewRoutesAreServedAfterTheirCode checks that the snapshot of the API waits
// for the aliases of the functions behind it.
func TestNewRoutesAreServedAfterTheirCode(t *testing.T) {
	t.Parallel()
	d := deployed(t)
	var want []any
	for _, s := range d.specs {
		if s.Trigger.HTTP {
			want = append(want, camel(s.Name)+"Live")
		}
	}
	assert.ElementsMatch(t, want, d.service.of("ApiGateway::Deployment")[0].all["DependsOn"])
}
