package main

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"

	"millrace/shared/platform/queue"
	"millrace/shared/platform/telemetry"
	"millrace/shared/web/fn"
)

// Alarm thresholds.
const (
	oldestMessage = 5 * time.Minute // age of a message that was not received
	functionFails = 5               // failed invocations in five minutes
	gatewayFails  = 5               // 5xx responses in five minutes
	tickMissing   = 3               // minutes without a tick
	tickLag       = 5 * time.Minute // age of the most overdue entry
)

// metric is a CloudWatch metric.
type metric struct {
	namespace, name, statistic string
	dimensions                 [][2]string
}

func lambdaMetric(cfg Config, name, function string) metric {
	return metric{"AWS/Lambda", name, "Sum", [][2]string{{"FunctionName", cfg.name(function)}}}
}

func queueMetric(cfg Config, name, statistic, queue string) metric {
	return metric{"AWS/SQS", name, statistic, [][2]string{{"QueueName", cfg.queue(queue)}}}
}

func gatewayMetric(cfg Config, name, statistic string) metric {
	return metric{"AWS/ApiGateway", name, statistic, [][2]string{{"ApiName", cfg.name("api")}, {"Stage", stageName}}}
}

func tableMetric(cfg Config, name string) metric {
	return metric{"AWS/DynamoDB", name, "Sum", [][2]string{{"TableName", cfg.table()}}}
}

// ownMetric returns a metric that functions emit themselves.
func ownMetric(cfg Config, m telemetry.Metric, statistic, function string) metric {
	return metric{cfg.namespace(), m.String(), statistic, [][2]string{{"Function", function}}}
}

// alarm fires when a metric reaches its threshold.
type alarm struct {
	id, doc   string
	metric    metric
	threshold float64
	period    time.Duration // five minutes if zero
	periods   int           // one if zero
	missing   bool          // fires when the metric is below the threshold, or missing
}

func addOperations(stack awscdk.Stack, cfg Config, specs []fn.Spec) {
	topic := awssns.NewCfnTopic(stack, jsii.String("Alarms"), &awssns.CfnTopicProps{
		TopicName: jsii.String(cfg.name("alarms")), DisplayName: jsii.String("Millrace " + cfg.Tenant + " " + cfg.Stage),
		KmsMasterKeyId: cfg.imported(keyARN),
	})
	awssns.NewCfnTopicPolicy(stack, jsii.String("AlarmsPolicy"), &awssns.CfnTopicPolicyProps{
		Topics: &[]*string{topic.Ref()},
		PolicyDocument: document(
			statement{
				id: "Alarms", principal: service("cloudwatch"), actions: []string{"sns:Publish"}, resources: []*string{topic.Ref()},
				when: map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": awscdk.Fn_Ref(jsii.String("AWS::AccountId"))}},
			},
			statement{
				id: "OnlyTLS", deny: true, principal: map[string]any{"AWS": "*"}, actions: []string{"sns:Publish"}, resources: []*string{topic.Ref()},
				when: map[string]any{"Bool": map[string]any{"aws:SecureTransport": "false"}},
			},
		),
	})
	if cfg.AlarmEmail != "" {
		awssns.NewCfnSubscription(stack, jsii.String("AlarmsByEmail"), &awssns.CfnSubscriptionProps{
			TopicArn: topic.Ref(), Protocol: jsii.String("email"), Endpoint: jsii.String(cfg.AlarmEmail),
		})
	}
	for _, a := range alarms(cfg, specs) {
		addAlarm(stack, cfg, a, topic)
	}
	addDashboard(stack, cfg, specs)
}

// alarms returns the alarms of a deployment.
func alarms(cfg Config, specs []fn.Spec) []alarm {
	list := []alarm{
		{id: "Api5xx", doc: "The API answers with server errors.", metric: gatewayMetric(cfg, "5XXError", "Sum"), threshold: gatewayFails},
		{id: "TableErrors", doc: "DynamoDB answers with server errors.", metric: tableMetric(cfg, "SystemErrors"), threshold: functionFails},
		{id: "TableReadThrottles", doc: "The table refuses reads: one partition is read too often.", metric: tableMetric(cfg, "ReadThrottleEvents"), threshold: 100},
		{id: "TableWriteThrottles", doc: "The table refuses writes: one partition is written too often.", metric: tableMetric(cfg, "WriteThrottleEvents"), threshold: 100},
	}
	for _, s := range specs {
		id := camel(s.Name)
		list = append(list,
			alarm{id: id + "Errors", doc: s.Name + " fails: it crashed, took too long, or returned an error.", metric: lambdaMetric(cfg, "Errors", s.Name), threshold: functionFails},
			alarm{id: id + "Throttles", doc: s.Name + " is throttled: the account's environments are used up.", metric: lambdaMetric(cfg, "Throttles", s.Name), threshold: 1, periods: 3})
		if s.Trigger.EveryMinute {
			list = append(list, alarm{
				id: id + "Lags", doc: s.Name + " does not keep up: what falls due waits for minutes.",
				metric: ownMetric(cfg, telemetry.TickLag, "Maximum", s.Name), threshold: float64(tickLag.Milliseconds()), periods: 2,
			}, alarm{
				id: id + "Missed", doc: s.Name + " was not invoked for minutes: nothing that falls due is seen to.",
				metric: lambdaMetric(cfg, "Invocations", s.Name), threshold: 1, period: time.Minute, periods: tickMissing, missing: true,
			})
		}
	}
	for _, t := range cfg.Tiers.All() {
		name := sandboxName(t)
		// Failing tasks concern their authors and do not count as errors.
		list = append(list,
			alarm{id: camel(name) + "Errors", doc: name + " crashes: tasks need more memory than their tier has, or the runner fails.", metric: lambdaMetric(cfg, "Errors", name), threshold: 10 * functionFails},
			alarm{id: camel(name) + "Throttles", doc: name + " is throttled: the account's environments are used up.", metric: lambdaMetric(cfg, "Throttles", name), threshold: 1, periods: 3})
	}
	for _, def := range cfg.watchedQueues(specs) {
		id := camel(def.Name)
		list = append(list,
			alarm{id: id + "Dead", doc: "Messages of " + def.Name + " failed until they were given up.", metric: queueMetric(cfg, "ApproximateNumberOfMessagesVisible", "Maximum", queue.Dead(def.Name)), threshold: 1},
			alarm{id: id + "Oldest", doc: "Messages of " + def.Name + " wait: its function is too slow, throttled, or stopped.", metric: queueMetric(cfg, "ApproximateAgeOfOldestMessage", "Maximum", def.Name), threshold: oldestMessage.Seconds()})
	}
	return list
}

func addAlarm(stack awscdk.Stack, cfg Config, a alarm, topic awssns.CfnTopic) {
	comparison, missing := "GreaterThanOrEqualToThreshold", "notBreaching"
	if a.missing {
		comparison, missing = "LessThanThreshold", "breaching"
	}
	period := a.period
	if period == 0 {
		period = 5 * time.Minute
	}
	var dimensions []any
	for _, d := range a.metric.dimensions {
		dimensions = append(dimensions, &awscloudwatch.CfnAlarm_DimensionProperty{Name: jsii.String(d[0]), Value: jsii.String(d[1])})
	}
	awscloudwatch.NewCfnAlarm(stack, jsii.String(a.id), &awscloudwatch.CfnAlarmProps{
		AlarmName: jsii.String(cfg.name(a.id)), AlarmDescription: jsii.String(a.doc),
		Namespace: jsii.String(a.metric.namespace), MetricName: jsii.String(a.metric.name), Statistic: jsii.String(a.metric.statistic), Dimensions: dimensions,
		Threshold: jsii.Number(a.threshold), ComparisonOperator: jsii.String(comparison), TreatMissingData: jsii.String(missing),
		Period: jsii.Number(period.Seconds()), EvaluationPeriods: jsii.Number(max(a.periods, 1)),
		AlarmActions: &[]any{topic.Ref()}, OkActions: &[]any{topic.Ref()},
	})
}
