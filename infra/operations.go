package main

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"

	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/platform/table/dynamo"
	"millrace/shared/platform/telemetry"
	"millrace/shared/web/fn"
)

// Alarm thresholds.
const (
	oldestMessage = 5 * time.Minute // age of a message that was not received
	functionFails = 5               // failed invocations in five minutes
	tickFails     = 2               // failed ticks in five minutes
	gatewayFails  = 5               // 5xx responses in five minutes
	tickMissing   = 3               // minutes without a tick
	tickLag       = 5 * time.Minute // age of the most overdue entry
)

// metric is a CloudWatch metric. Values of dimensions may have ${AWS::AccountId}.
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

func tableMetric(cfg Config, name string, more ...[2]string) metric {
	return metric{"AWS/DynamoDB", name, "Sum", append([][2]string{{"TableName", cfg.table()}}, more...)}
}

// tableOperations are those that functions use. DynamoDB counts its own errors by
// operation only.
var tableOperations = []string{
	"BatchGetItem", "BatchWriteItem", "DeleteItem", "GetItem", "PutItem", "Query", "TransactWriteItems", "UpdateItem",
}

// tableErrors returns the alarm of DynamoDB's own errors, of all operations.
func tableErrors(cfg Config) alarm {
	terms := map[string]metric{}
	for _, operation := range tableOperations {
		terms[term(operation)] = tableMetric(cfg, "SystemErrors", [2]string{"Operation", operation})
	}
	return alarm{id: "TableErrors", doc: "DynamoDB answers with server errors.", expression: sum(terms), terms: terms, threshold: functionFails}
}

// tableThrottles returns an alarm of throttles. Those of an index are not among
// those of its table.
func tableThrottles(cfg Config, id, doc, name string) alarm {
	terms := map[string]metric{"table": tableMetric(cfg, name)}
	for _, x := range table.Indexes {
		index := dynamo.IndexName(x)
		terms[term(index)] = tableMetric(cfg, name, [2]string{"GlobalSecondaryIndexName", index})
	}
	return alarm{id: id, doc: doc, expression: sum(terms), terms: terms, threshold: 100}
}

// term returns a name in expressions, which begins with a small letter.
func term(name string) string { return strings.ToLower(name[:1]) + name[1:] }

// sum returns the sum of terms, of which those without data are 0.
func sum(terms map[string]metric) string {
	var filled []string
	for _, name := range slices.Sorted(maps.Keys(terms)) {
		filled = append(filled, "FILL("+name+", 0)")
	}
	return strings.Join(filled, " + ")
}

// ownMetric returns a metric that functions emit themselves.
func ownMetric(cfg Config, m telemetry.Metric, statistic, function string) metric {
	return metric{cfg.namespace(), m.String(), statistic, [][2]string{{"Function", function}}}
}

// alarm fires when a metric, or an expression of several, reaches its threshold.
type alarm struct {
	id, doc    string
	metric     metric
	terms      map[string]metric // by their names in the expression; then there is no metric
	expression string
	threshold  float64
	period     time.Duration // five minutes if zero
	periods    int           // one if zero
	missing    bool          // fires when the metric is below the threshold, or missing
	silent     bool          // fires when the metric is missing, too
}

func addOperations(stack awscdk.Stack, cfg Config, specs []fn.Spec) {
	topic := awssns.NewCfnTopic(stack, jsii.String("Alarms"), &awssns.CfnTopicProps{
		TopicName: jsii.String(cfg.name("alarms")), DisplayName: jsii.String("Millrace " + cfg.Tenant + " " + cfg.Stage),
		KmsMasterKeyId: cfg.imported(keyARN),
	})
	sends := func(id, from string) statement {
		return statement{
			id: id, principal: service(from), actions: []string{"sns:Publish"}, resources: []*string{topic.Ref()},
			when: map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": awscdk.Fn_Ref(jsii.String("AWS::AccountId"))}},
		}
	}
	statements := []statement{sends("Alarms", "cloudwatch")}
	for _, from := range cfg.costServices() {
		statements = append(statements, sends("Costs"+from, from))
	}
	awssns.NewCfnTopicPolicy(stack, jsii.String("AlarmsPolicy"), &awssns.CfnTopicPolicyProps{
		Topics: &[]*string{topic.Ref()},
		PolicyDocument: document(append(statements,
			statement{
				id: "OnlyTLS", deny: true, principal: map[string]any{"AWS": "*"}, actions: []string{"sns:Publish"}, resources: []*string{topic.Ref()},
				when: map[string]any{"Bool": map[string]any{"aws:SecureTransport": "false"}},
			},
		)...),
	})
	addCosts(stack, cfg, topic)
	if cfg.AlarmEmail != "" {
		awssns.NewCfnSubscription(stack, jsii.String("AlarmsByEmail"), &awssns.CfnSubscriptionProps{
			TopicArn: topic.Ref(), Protocol: jsii.String("email"), Endpoint: jsii.String(cfg.AlarmEmail),
		})
	}
	for _, a := range slices.Concat(alarms(cfg, specs), capacityAlarms(cfg, specs), backupAlarms(cfg), syntheticAlarms(cfg)) {
		addAlarm(stack, cfg, a, topic)
	}
	addDashboard(stack, cfg, specs)
}

// alarms returns the alarms of a deployment.
func alarms(cfg Config, specs []fn.Spec) []alarm {
	list := []alarm{
		{id: "Api5xx", doc: "The API answers with server errors.", metric: gatewayMetric(cfg, "5XXError", "Sum"), threshold: gatewayFails},
		tableErrors(cfg),
		tableThrottles(cfg, "TableReadThrottles", "The table or an index refuses reads: one partition is read too often.", "ReadThrottleEvents"),
		tableThrottles(cfg, "TableWriteThrottles", "The table or an index refuses writes: one partition is written too often.", "WriteThrottleEvents"),
	}
	for _, s := range specs {
		id := camel(s.Name)
		list = append(list,
			alarm{id: id + "Errors", doc: s.Name + " fails: it crashed, took too long, or returned an error.", metric: lambdaMetric(cfg, "Errors", s.Name), threshold: fails(s)},
			alarm{id: id + "Throttles", doc: s.Name + " is throttled: the account's environments are used up.", metric: lambdaMetric(cfg, "Throttles", s.Name), threshold: 1, periods: 3})
		if s.Trigger.EveryMinute {
			list = append(list, alarm{
				id: id + "Lags", doc: s.Name + " does not keep up, or does not come to its end: what falls due waits for minutes.",
				metric: ownMetric(cfg, telemetry.TickLag, "Maximum", s.Name), threshold: float64(tickLag.Milliseconds()), periods: 2, silent: true,
			}, alarm{
				id: id + "Fails", doc: s.Name + " cannot read or hand out a part of what is due.",
				metric: ownMetric(cfg, telemetry.TickFailures, "Sum", s.Name), threshold: 1, periods: 3,
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
			waiting(cfg, def.Name))
	}
	return list
}

// fails returns the number of failed invocations in five minutes that are an
// alarm. Of those of a tick, which are five, two are.
func fails(s fn.Spec) float64 {
	if s.Trigger.EveryMinute {
		return tickFails
	}
	return functionFails
}

func addAlarm(stack awscdk.Stack, cfg Config, a alarm, topic awssns.CfnTopic) {
	comparison, missing := "GreaterThanOrEqualToThreshold", "notBreaching"
	if a.missing {
		comparison, missing = "LessThanThreshold", "breaching"
	}
	if a.silent {
		missing = "breaching"
	}
	period := a.period
	if period == 0 {
		period = 5 * time.Minute
	}
	props := &awscloudwatch.CfnAlarmProps{
		AlarmName: jsii.String(cfg.name(a.id)), AlarmDescription: jsii.String(a.doc),
		Threshold: jsii.Number(a.threshold), ComparisonOperator: jsii.String(comparison), TreatMissingData: jsii.String(missing),
		EvaluationPeriods: jsii.Number(max(a.periods, 1)),
		AlarmActions:      &[]any{topic.Ref()}, OkActions: &[]any{topic.Ref()},
	}
	switch {
	case a.expression != "":
		props.Metrics = a.queries(period)
	case strings.HasPrefix(a.metric.statistic, "p"):
		props.ExtendedStatistic = jsii.String(a.metric.statistic)
	default:
		props.Statistic = jsii.String(a.metric.statistic)
	}
	if a.expression == "" {
		props.Namespace, props.MetricName, props.Dimensions = jsii.String(a.metric.namespace), jsii.String(a.metric.name), a.metric.properties()
		props.Period = jsii.Number(period.Seconds())
	}
	awscloudwatch.NewCfnAlarm(stack, jsii.String(a.id), props)
}

// properties returns a metric's dimensions as properties of an alarm.
func (m metric) properties() []any {
	out := []any{}
	for _, d := range m.dimensions {
		value := jsii.String(d[1])
		if strings.Contains(d[1], "${") {
			value = awscdk.Fn_Sub(value, nil)
		}
		out = append(out, &awscloudwatch.CfnAlarm_DimensionProperty{Name: jsii.String(d[0]), Value: value})
	}
	return out
}

// queries returns an alarm's expression and its terms.
func (a alarm) queries(period time.Duration) []any {
	out := []any{&awscloudwatch.CfnAlarm_MetricDataQueryProperty{
		Id: jsii.String("value"), Expression: jsii.String(a.expression), Label: jsii.String(a.id), ReturnData: jsii.Bool(true),
	}}
	for _, name := range slices.Sorted(maps.Keys(a.terms)) {
		m := a.terms[name]
		out = append(out, &awscloudwatch.CfnAlarm_MetricDataQueryProperty{
			Id: jsii.String(name), ReturnData: jsii.Bool(false),
			MetricStat: &awscloudwatch.CfnAlarm_MetricStatProperty{
				Metric: &awscloudwatch.CfnAlarm_MetricProperty{Namespace: jsii.String(m.namespace), MetricName: jsii.String(m.name), Dimensions: m.properties()},
				Period: jsii.Number(period.Seconds()), Stat: jsii.String(m.statistic),
			},
		})
	}
	return out
}
