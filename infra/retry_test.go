package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/shared/run/tier"
)

// names are the properties by which resources are found under a name of ours, by
// kind. An empty one: CloudFormation or the service chooses the name.
var names = map[string]string{
	"DynamoDB::Table": "TableName", "S3::Bucket": "BucketName", "SQS::Queue": "QueueName", "Events::EventBus": "Name", "Events::Rule": "Name",
	"KMS::Key": "", "KMS::ReplicaKey": "", "Backup::BackupVault": "BackupVaultName", "Backup::BackupPlan": "", "Backup::BackupSelection": "",
	"KMS::Alias": "AliasName", "SecretsManager::Secret": "Name", "Cognito::UserPool": "", "Cognito::UserPoolDomain": "Domain",
	"S3::BucketPolicy": "", "SQS::QueuePolicy": "",
	"Lambda::Function": "FunctionName", "Lambda::Permission": "", "Lambda::EventInvokeConfig": "", "Lambda::EventSourceMapping": "", "Lambda::Url": "",
	"Logs::LogGroup": "LogGroupName", "IAM::Role": "RoleName", "WAFv2::WebACL": "Name", "WAFv2::WebACLAssociation": "",
	"Lambda::Alias": "", "Lambda::Version": "", "CodeDeploy::Application": "ApplicationName", "CodeDeploy::DeploymentGroup": "", // in the function, in the application
	"ApiGateway::RestApi": "", "ApiGateway::Deployment": "", "ApiGateway::Stage": "", "ApiGateway::Account": "",
	"Cognito::UserPoolClient": "", "Cognito::ManagedLoginBranding": "",
	"CloudWatch::Alarm": "AlarmName", "CloudWatch::Dashboard": "DashboardName", "SNS::Topic": "TopicName", "SNS::TopicPolicy": "", "SNS::Subscription": "",
}

// account is what exists in an AWS account: kinds and names of resources.
type account map[string]bool

// create plays CloudFormation's creation of a stack whose resource failing fails,
// at the worst moment: when everything that does not depend on it exists. What was
// made is deleted then as its deletion policy says, and as its own protection
// lets. It returns what could not be made because the name was taken.
func (a account) create(t *testing.T, stack template, failing string) (taken []string) {
	t.Helper()
	after := dependents(stack, failing)
	var made []resource
	for _, r := range stack.resources {
		if r.id == failing || slices.Contains(after, r.id) {
			continue
		}
		if a[called(t, r)] {
			taken = append(taken, r.id)
			continue
		}
		made = append(made, r)
	}
	for _, r := range made {
		rolledBack := failing != "" || len(taken) > 0
		deleted := r.all["DeletionPolicy"] != "Retain" && r.properties["DeletionProtectionEnabled"] != true && r.properties["DeletionProtection"] != "ACTIVE"
		if name := called(t, r); name != "" && (!rolledBack || !deleted) {
			a[name] = true
		}
	}
	return taken
}

// called returns a resource's kind and name; "" if the name is not ours.
func called(t *testing.T, r resource) string {
	t.Helper()
	kind := strings.TrimPrefix(r.kind, "AWS::")
	property, known := names[kind]
	require.True(t, known, "%s: say in names which property of a %s is its name", r.id, kind)
	name := text(r.properties[property])
	if property == "" || r.properties[property] == nil {
		return ""
	}
	return kind + " " + name
}

var logicalID = regexp.MustCompile(`[A-Za-z0-9]+`)

// dependents returns the resources that are made after one.
func dependents(stack template, id string) []string {
	needs := map[string][]string{}
	for _, r := range stack.resources {
		for _, word := range append(texts(r.all["DependsOn"]), logicalID.FindAllString(text(r.properties), -1)...) {
			needs[word] = append(needs[word], r.id) // words that are no resources do no harm
		}
	}
	found := map[string]bool{}
	for next := []string{id}; len(next) > 0; next = next[1:] {
		for _, other := range needs[next[0]] {
			if other != id && !found[other] {
				found[other] = true
				next = append(next, other)
			}
		}
	}
	return slices.Collect(maps.Keys(found))
}

// TestFailedFirstDeploymentCanBeRepeated fails the creation of each stack at each
// of its resources, and repeats it.
func TestFailedFirstDeploymentCanBeRepeated(t *testing.T) {
	t.Parallel()
	stacks := deployed(t).templates()
	for name, stack := range deployedWithBackup(t).templates() {
		stacks[name+" with a backup"] = stack
	}
	for name, stack := range stacks {
		for _, r := range stack.resources {
			a := account{}
			a.create(t, stack, r.id)
			assert.Empty(t, a, "%s: what stays when %s cannot be made", name, r.id)
			assert.Empty(t, a.create(t, stack, ""), "%s is made after %s could not be made", name, r.id)
		}
	}
}

// TestKeptResourcesBlockARepetition shows what the previous test finds.
func TestKeptResourcesBlockARepetition(t *testing.T) {
	t.Parallel()
	d := deployed(t)
	stack := template{}
	for _, r := range d.data.resources {
		all := maps.Clone(r.all)
		if all["DeletionPolicy"] == "RetainExceptOnCreate" {
			all["DeletionPolicy"] = "Retain"
		}
		delete(all, "DependsOn")
		stack.resources = append(stack.resources, resource{r.id, r.kind, r.properties, all})
	}
	a := account{}
	a.create(t, stack, "BucketPolicy")
	assert.True(t, a["DynamoDB::Table millrace-acme-prod-table"])
	assert.Contains(t, a.create(t, stack, ""), "Table")
}

func TestTableIsMadeLast(t *testing.T) {
	t.Parallel()
	data := deployed(t).data
	assert.Empty(t, dependents(data, "Table"))
	for _, r := range data.resources {
		if r.id != "Table" {
			assert.Contains(t, dependents(data, r.id), "Table", r.id)
		}
	}
}

// TestDeletedStackLeavesItsData: what outlives its stack is data, and what cannot
// be made again.
func TestDeletedStackLeavesItsData(t *testing.T) {
	t.Parallel()
	for name, stack := range deployed(t).templates() {
		for _, r := range stack.resources {
			policy := r.all["DeletionPolicy"]
			switch {
			case name == "data":
				assert.NotEqual(t, "Retain", policy, r.id)
			case r.kind == "AWS::ApiGateway::Account", r.id == "GatewayLogRole": // the account's, without a name
			default:
				assert.Contains(t, []any{nil, "Delete"}, policy, "%s of %s", r.id, name)
			}
		}
	}
}

func TestOnlyNeededTiersAreMade(t *testing.T) {
	t.Parallel()
	cfg := example()
	cfg.Tiers = tier.Set{tier.Nano, tier.Medium}
	d := synth(t, cfg, catalog.All(), "code")
	assert.Equal(t, deployed(t).data.json, d.data.json, "tiers can be removed and added again")
	var functions, mapped []string
	for _, f := range d.service.of("Lambda::Function") {
		if name, is := strings.CutPrefix(text(f.properties["FunctionName"]), "millrace-acme-prod-sandbox-"); is {
			functions = append(functions, name)
		}
		variables, _ := f.properties["Environment"].(object)["Variables"].(object)
		if !strings.HasPrefix(text(f.properties["Runtime"]), "python") {
			assert.Equal(t, "nano,medium", variables["MILLRACE_TIERS"], f.id)
		}
	}
	for _, m := range d.service.of("Lambda::EventSourceMapping") {
		if _, name, is := strings.Cut(text(m.properties["EventSourceArn"]), ":millrace-acme-prod-tasks-"); is {
			mapped = append(mapped, name)
		}
	}
	assert.ElementsMatch(t, []string{"nano", "medium"}, functions)
	assert.ElementsMatch(t, functions, mapped)
	for name, template := range map[string]template{"service": d.service, "operations": d.operations} {
		assert.NotContains(t, template.golden(t), "sandbox-large", name)
	}
	assert.NotContains(t, d.operations.golden(t), "tasks-large")
	assert.NotContains(t, deployed(t).service.golden(t), "MILLRACE_TIERS", "all are the default")
}
