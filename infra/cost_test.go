package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCostsAreToldAndLimited(t *testing.T) {
	t.Parallel()
	plain := deployed(t)
	assert.NotContains(t, plain.operations.golden(t), "AWS::Budgets::Budget")
	assert.NotContains(t, plain.data.golden(t), "OnDemandThroughput")
	costs := synth(t, Config{
		Tenant: "acme", Region: "eu-west-1", Stage: "prod", Budget: 400, MaxWriteUnits: 2000, MaxReadUnits: 4000,
		AnomalyMonitor: "arn:aws:ce::123456789012:anomalymonitor/0a1b2c3d-0000-4444-8888-0123456789ab",
	}, plain.specs, "code")
	kinds := map[string]object{}
	for _, r := range append(costs.operations.resources, costs.data.resources...) {
		kinds[r.kind] = r.properties
	}
	budget := kinds["AWS::Budgets::Budget"]
	require.NotNil(t, budget)
	assert.Equal(t, object{"Amount": 400.0, "Unit": "USD"}, budget["Budget"].(object)["BudgetLimit"])
	assert.Len(t, budget["NotificationsWithSubscribers"], 3)
	assert.Contains(t, kinds["AWS::CE::AnomalySubscription"]["ThresholdExpression"], `"Values":["20"]`)
	table := kinds["AWS::DynamoDB::Table"]
	limit := object{"MaxReadRequestUnits": 4000.0, "MaxWriteRequestUnits": 2000.0}
	assert.Equal(t, limit, table["OnDemandThroughput"])
	for _, x := range table["GlobalSecondaryIndexes"].([]any) {
		assert.Equal(t, limit, x.(object)["OnDemandThroughput"], "an index would throttle the table's writes or cost what it likes")
	}
	for _, name := range []string{"budgets.amazonaws.com", "costalerts.amazonaws.com"} {
		assert.Contains(t, costs.data.golden(t), name, "may use the key")
		assert.Contains(t, costs.operations.golden(t), name, "may send to the topic")
	}
}
