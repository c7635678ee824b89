package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/shared/platform/table"
	"millrace/shared/platform/table/dynamo"
)

// dimensioned are the metrics in use, with the dimensions under which they are
// published, as the services' manuals list them. A metric that is asked for by
// others has no data, and its alarm never fires.
var dimensioned = map[string][]string{
	"AWS/Lambda Errors":                    {"FunctionName", "FunctionName Resource"},
	"AWS/Lambda Throttles":                 {"FunctionName"},
	"AWS/Lambda Invocations":               {"FunctionName"},
	"AWS/Lambda Duration":                  {"FunctionName"},
	"AWS/Lambda ConcurrentExecutions":      {"FunctionName"},
	"AWS/Lambda AsyncEventAge":             {"FunctionName"},
	"AWS/Lambda AsyncEventsDropped":        {"FunctionName"},
	"AWS/Lambda ClaimedAccountConcurrency": {""},
	"AWS/Usage ResourceCount":              {"Class Resource Service Type"},

	"AWS/ApiGateway Count":    {"ApiName Stage"},
	"AWS/ApiGateway 4XXError": {"ApiName Stage"},
	"AWS/ApiGateway 5XXError": {"ApiName Stage"},
	"AWS/ApiGateway Latency":  {"ApiName Stage"},

	"AWS/SQS ApproximateNumberOfMessagesVisible": {"QueueName"},
	"AWS/SQS ApproximateAgeOfOldestMessage":      {"QueueName"},
	"AWS/SQS NumberOfMessagesReceived":           {"QueueName"},
	"AWS/Events FailedInvocations":               {"RuleName", "EventBusName RuleName"},
	"AWS/WAFV2 BlockedRequests":                  {"Region Rule WebACL"},

	"AWS/DynamoDB SystemErrors":               {"Operation TableName"},
	"AWS/DynamoDB ReadThrottleEvents":         {"TableName", "GlobalSecondaryIndexName TableName"},
	"AWS/DynamoDB WriteThrottleEvents":        {"TableName", "GlobalSecondaryIndexName TableName"},
	"AWS/DynamoDB ConsumedReadCapacityUnits":  {"TableName"},
	"AWS/DynamoDB ConsumedWriteCapacityUnits": {"TableName"},
	"AWS/DynamoDB TransactionConflict":        {"TableName"},

	"AWS/Backup NumberOfBackupJobsFailed":  {"BackupVaultName"},
	"AWS/Backup NumberOfBackupJobsAborted": {"BackupVaultName"},
	"AWS/Backup NumberOfBackupJobsExpired": {"BackupVaultName"},
	"AWS/Backup NumberOfCopyJobsFailed":    {"BackupVaultName"},
	"AWS/Backup NumberOfCopyJobsCompleted": {"BackupVaultName"},
	"AWS/S3 OperationsFailedReplication":   {"DestinationBucket RuleId SourceBucket"},
	"AWS/S3 ReplicationLatency":            {"DestinationBucket RuleId SourceBucket"},

	// The service's own, by package telemetry.
	"Millrace/acme/prod QueueDelay":    {"Tier"},
	"Millrace/acme/prod StartDelay":    {"Tier"},
	"Millrace/acme/prod TickLag":       {"Function"},
	"Millrace/acme/prod TickFailures":  {"Function"},
	"Millrace/acme/prod SyntheticRuns": {"Outcome"},
}

// maxTerms is the most metrics of an alarm.
const maxTerms = 10

func TestMetricsHaveTheDimensionsOfTheirServices(t *testing.T) {
	t.Parallel()
	cfg := example()
	cfg.BackupRegion, cfg.SyntheticRun = "eu-central-1", true
	d := synth(t, cfg, catalog.With(catalog.Optional()...), "code")
	seen := map[string]bool{}
	check := func(where, namespace, name string, dimensions []string) {
		slices.Sort(dimensions)
		seen[namespace+" "+name] = true
		assert.Contains(t, dimensioned[namespace+" "+name], strings.Join(dimensions, " "), "%s: %s %s", where, namespace, name)
	}
	ofAlarm := func(where string, m object) {
		var dimensions []string
		list, _ := m["Dimensions"].([]any)
		for _, one := range list {
			dimensions = append(dimensions, one.(object)["Name"].(string))
		}
		check(where, m["Namespace"].(string), m["MetricName"].(string), dimensions)
	}
	for _, a := range append(d.operations.of("CloudWatch::Alarm"), d.service.of("CloudWatch::Alarm")...) {
		terms, _ := a.properties["Metrics"].([]any)
		if len(terms) == 0 {
			ofAlarm(a.id, a.properties)
		}
		assert.LessOrEqual(t, len(terms)-1, maxTerms, a.id)
		for _, one := range terms {
			if stat, found := one.(object)["MetricStat"].(object); found {
				ofAlarm(a.id, stat["Metric"].(object))
			}
		}
	}
	var board struct {
		Widgets []struct {
			Properties struct {
				Title   string
				Metrics [][]any
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(text(d.operations.of("CloudWatch::Dashboard")[0].properties["DashboardBody"])), &board))
	for _, w := range board.Widgets {
		for _, m := range w.Properties.Metrics {
			if len(m) == 1 { // a search
				expression := m[0].(object)["expression"].(string)
				assert.True(t, strings.HasPrefix(expression, `SEARCH('{"Millrace/acme/prod",`), "%s: CloudWatch wants names with punctuation in quotes", expression)
				continue
			}
			var dimensions []string
			for i := 2; i < len(m)-1; i += 2 {
				dimensions = append(dimensions, m[i].(string))
			}
			check(w.Properties.Title, m[0].(string), m[1].(string), dimensions)
		}
	}
	for name := range dimensioned {
		assert.True(t, seen[name], "%s is not in use", name)
	}
}

// TestManualCountsWhatIdleDeploymentsPayFor holds the README's price of an idle
// deployment to the templates.
func TestManualCountsWhatIdleDeploymentsPayFor(t *testing.T) {
	t.Parallel()
	d := deployed(t)
	alarms, metrics := append(d.operations.of("CloudWatch::Alarm"), d.service.of("CloudWatch::Alarm")...), 0
	for _, a := range alarms {
		terms, _ := a.properties["Metrics"].([]any)
		metrics += max(1, len(terms)-1) // one is the expression
	}
	manual, err := os.ReadFile("README.md")
	require.NoError(t, err)
	assert.Contains(t, string(manual), fmt.Sprintf("alarms $%.2f (%d of %d metrics at $0.10;", float64(metrics)/10, len(alarms), metrics))
	assert.Contains(t, string(manual), fmt.Sprintf("pollers of %d queues ", len(d.service.of("Lambda::EventSourceMapping"))))
	assert.Contains(t, string(manual), fmt.Sprintf("firewall $%d (", 5+len(d.service.of("WAFv2::WebACL")[0].properties["Rules"].([]any))))
}

// TestTableIsWatchedAsAWhole: DynamoDB counts errors of its own by operation, and
// throttles of an index apart from those of the table.
func TestTableIsWatchedAsAWhole(t *testing.T) {
	t.Parallel()
	d := deployed(t)
	actions := map[string]bool{"dynamodb:TransactWriteItems": true} // by the permissions of its parts
	for _, statements := range d.service.policyStatements() {
		for _, s := range statements {
			for _, action := range texts(s["Action"]) {
				if strings.HasPrefix(action, "dynamodb:") && s["Effect"] == "Allow" {
					actions[action] = true
				}
			}
		}
	}
	delete(actions, "dynamodb:ConditionCheckItem") // a part of a transaction
	delete(actions, "dynamodb:DescribeTable")      // reads no items
	assert.Len(t, actions, len(tableOperations))
	for action := range actions {
		assert.True(t, d.watched("AWS/DynamoDB", "SystemErrors", "Operation", strings.TrimPrefix(action, "dynamodb:")), action)
	}
	for _, name := range []string{"ReadThrottleEvents", "WriteThrottleEvents"} {
		assert.True(t, d.watched("AWS/DynamoDB", name, "TableName", d.cfg.table()), name)
		for _, x := range table.Indexes {
			assert.True(t, d.watched("AWS/DynamoDB", name, "GlobalSecondaryIndexName", dynamo.IndexName(x)), "%s of %s", name, x)
		}
	}
}
