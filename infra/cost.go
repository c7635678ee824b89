package main

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsbudgets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsce"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"
)

// anomalyShare is the part of the budget from which a cost anomaly is told, and
// anomalyDollars the amount without a budget.
const (
	anomalyShare   = 0.05
	anomalyDollars = 100
)

var monitorForm = regexp.MustCompile(`^arn:aws[a-z-]*:ce::\d{12}:anomalymonitor/[0-9a-f-]+$`)

// whole parses a positive whole number; "" is 0, anything else but a number -1.
func whole(text string) int {
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return -1
	}
	return n
}

// addCosts adds what tells of costs before the bill does, to the topic of
// alarms. Both are of the whole account: costs by tag are known only where the
// account's payer has activated the tag.
func addCosts(stack awscdk.Stack, cfg Config, topic awssns.CfnTopic) {
	if cfg.Budget > 0 {
		tell := func(kind string, percent float64) any {
			return &awsbudgets.CfnBudget_NotificationWithSubscribersProperty{
				Notification: &awsbudgets.CfnBudget_NotificationProperty{
					NotificationType: jsii.String(kind), ComparisonOperator: jsii.String("GREATER_THAN"),
					Threshold: jsii.Number(percent), ThresholdType: jsii.String("PERCENTAGE"),
				},
				Subscribers: []any{&awsbudgets.CfnBudget_SubscriberProperty{SubscriptionType: jsii.String("SNS"), Address: topic.Ref()}},
			}
		}
		awsbudgets.NewCfnBudget(stack, jsii.String("Budget"), &awsbudgets.CfnBudgetProps{
			Budget: &awsbudgets.CfnBudget_BudgetDataProperty{
				BudgetName: jsii.String(cfg.name("budget")), BudgetType: jsii.String("COST"), TimeUnit: jsii.String("MONTHLY"),
				BudgetLimit: &awsbudgets.CfnBudget_SpendProperty{Amount: jsii.Number(cfg.Budget), Unit: jsii.String("USD")},
			},
			NotificationsWithSubscribers: []any{tell("ACTUAL", 80), tell("ACTUAL", 100), tell("FORECASTED", 100)},
		})
	}
	if cfg.AnomalyMonitor == "" {
		return
	}
	least := float64(anomalyDollars)
	if cfg.Budget > 0 {
		least = max(1, anomalyShare*float64(cfg.Budget))
	}
	awsce.NewCfnAnomalySubscription(stack, jsii.String("Anomalies"), &awsce.CfnAnomalySubscriptionProps{
		SubscriptionName: jsii.String(cfg.name("anomalies")), Frequency: jsii.String("IMMEDIATE"),
		MonitorArnList: &[]any{cfg.AnomalyMonitor},
		Subscribers:    []any{&awsce.CfnAnomalySubscription_SubscriberProperty{Type: jsii.String("SNS"), Address: topic.Ref()}},
		ThresholdExpression: jsii.String(fmt.Sprintf(
			`{"Dimensions":{"Key":"ANOMALY_TOTAL_IMPACT_ABSOLUTE","MatchOptions":["GREATER_THAN_OR_EQUAL"],"Values":["%g"]}}`, least)),
	})
}

// costServices are the services that send to the topic of alarms besides
// CloudWatch: those of what a deployment has of budget and anomalies.
func (c Config) costServices() []string {
	var out []string
	if c.Budget > 0 {
		out = append(out, "budgets")
	}
	if c.AnomalyMonitor != "" {
		out = append(out, "costalerts")
	}
	return out
}

// throughput returns the largest throughput of the table, and of each of its
// indexes; nil if it is not limited.
func (c Config) throughput() any {
	if c.MaxWriteUnits == 0 && c.MaxReadUnits == 0 {
		return nil
	}
	out := &awsdynamodb.CfnTable_OnDemandThroughputProperty{}
	if c.MaxReadUnits > 0 {
		out.MaxReadRequestUnits = jsii.Number(c.MaxReadUnits)
	}
	if c.MaxWriteUnits > 0 {
		out.MaxWriteRequestUnits = jsii.Number(c.MaxWriteUnits)
	}
	return out
}
