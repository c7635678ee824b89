package main

import (
	"encoding/json"
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/jsii-runtime-go"

	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/platform/table/dynamo"
	"millrace/shared/platform/telemetry"
	"millrace/shared/web/fn"
)

// Width of a dashboard's grid, and of a graph, three of which fit in a row.
const (
	gridWidth   = 24
	graphWidth  = 8
	graphHeight = 6
)

// graph is one graph of the dashboard: of given metrics, or of those that a
// search finds.
type graph struct {
	title  string
	lines  []metric
	search string
}

// search returns a search for all series of one of the functions' own metrics,
// grouped by these dimensions. The namespace is in quotes: a tenant's name may
// have a hyphen.
func search(cfg Config, m telemetry.Metric, statistic, by string) string {
	return fmt.Sprintf(`SEARCH('{"%s",%s} MetricName="%s"', '%s', 60)`, cfg.namespace(), by, m, statistic)
}

func addDashboard(stack awscdk.Stack, cfg Config, specs []fn.Spec) {
	var widgets []map[string]any
	for i, g := range graphs(cfg, specs) {
		perRow := gridWidth / graphWidth
		widgets = append(widgets, map[string]any{
			"type": "metric", "width": graphWidth, "height": graphHeight, "x": i % perRow * graphWidth, "y": i / perRow * graphHeight,
			"properties": map[string]any{"title": g.title, "region": cfg.Region, "period": 60, "view": "timeSeries", "metrics": g.metrics()},
		})
	}
	body, err := json.Marshal(map[string]any{"widgets": widgets})
	if err != nil {
		panic(fmt.Sprintf("infra: the dashboard does not marshal: %v", err)) // only strings and numbers
	}
	awscloudwatch.NewCfnDashboard(stack, jsii.String("Dashboard"), &awscloudwatch.CfnDashboardProps{
		DashboardName: jsii.String(cfg.name("service")), DashboardBody: jsii.String(string(body)),
	})
}

// metrics returns the metrics of a graph in a dashboard's form.
func (g graph) metrics() [][]any {
	if g.search != "" {
		return [][]any{{map[string]any{"expression": g.search, "id": "found"}}}
	}
	out := make([][]any, len(g.lines))
	for i, m := range g.lines {
		out[i] = []any{m.namespace, m.name}
		for _, d := range m.dimensions {
			out[i] = append(out[i], d[0], d[1])
		}
		out[i] = append(out[i], map[string]any{"stat": m.statistic})
	}
	return out
}

// graphs returns the graphs of the dashboard, from the caller inwards.
func graphs(cfg Config, specs []fn.Spec) []graph {
	ofFunctions := func(title, name, statistic string) graph {
		g := graph{title: title}
		for _, s := range specs {
			m := lambdaMetric(cfg, name, s.Name)
			m.statistic = statistic
			g.lines = append(g.lines, m)
		}
		return g
	}
	sandboxGraph := func(title, name, statistic string) graph {
		g := graph{title: title}
		for _, t := range cfg.Tiers.All() {
			m := lambdaMetric(cfg, name, sandboxName(t))
			m.statistic = statistic
			g.lines = append(g.lines, m)
		}
		return g
	}
	ofQueues := func(title, name, statistic string, named func(string) string) graph {
		g := graph{title: title}
		for _, def := range cfg.watchedQueues(specs) {
			g.lines = append(g.lines, queueMetric(cfg, name, statistic, named(def.Name)))
		}
		return g
	}
	throttled := graph{title: "Table, throttled"}
	for _, name := range []string{"ReadThrottleEvents", "WriteThrottleEvents"} {
		throttled.lines = append(throttled.lines, tableMetric(cfg, name))
		for _, x := range table.Indexes {
			throttled.lines = append(throttled.lines, tableMetric(cfg, name, [2]string{"GlobalSecondaryIndexName", dynamo.IndexName(x)}))
		}
	}
	own := func(name string) string { return name }
	return []graph{
		{title: "Requests", lines: []metric{gatewayMetric(cfg, "Count", "Sum"), gatewayMetric(cfg, "4XXError", "Sum"), gatewayMetric(cfg, "5XXError", "Sum")}},
		{title: "Time to answer, ms", lines: []metric{gatewayMetric(cfg, "Latency", "p50"), gatewayMetric(cfg, "Latency", "p99")}},
		{title: "Runs accepted", search: search(cfg, telemetry.RunsAccepted, "Sum", "Tier")},
		{title: "Runs finished", search: search(cfg, telemetry.RunsFinished, "Sum", "Tier,Outcome")},
		{title: "Acceptance to start p95, ms", search: search(cfg, telemetry.StartDelay, "p95", "Tier")},
		{title: "Tasks finished", search: search(cfg, telemetry.TasksFinished, "Sum", "Tier,Outcome")},
		{title: "Wait for a worker p95, ms", search: search(cfg, telemetry.QueueDelay, "p95", "Tier")},
		{title: "Workers gone silent", search: search(cfg, telemetry.LeasesLost, "Sum", "Tier")},
		{title: "Errors", search: search(cfg, telemetry.Errors, "Sum", "Function,Code")},
		ofFunctions("Invocations", "Invocations", "Sum"),
		ofFunctions("Failed invocations", "Errors", "Sum"),
		ofFunctions("Duration p95, ms", "Duration", "p95"),
		ofFunctions("Environments at once", "ConcurrentExecutions", "Maximum"),
		sandboxGraph("Tasks started", "Invocations", "Sum"),
		sandboxGraph("Sandboxes that crashed", "Errors", "Sum"),
		sandboxGraph("Sandboxes at once", "ConcurrentExecutions", "Maximum"),
		ofQueues("Messages waiting", "ApproximateNumberOfMessagesVisible", "Maximum", own),
		ofQueues("Oldest message, s", "ApproximateAgeOfOldestMessage", "Maximum", own),
		ofQueues("Dead letters", "ApproximateNumberOfMessagesVisible", "Maximum", queue.Dead),
		{title: "Table, units consumed", lines: []metric{tableMetric(cfg, "ConsumedReadCapacityUnits"), tableMetric(cfg, "ConsumedWriteCapacityUnits")}},
		throttled,
		{title: "Table, conflicts of transactions", lines: []metric{tableMetric(cfg, "TransactionConflict")}},
	}
}
