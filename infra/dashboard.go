package main

import (
	"encoding/json"
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/jsii-runtime-go"

	"millrace/functions/catalog"
	"millrace/shared/fn"
	"millrace/shared/queue"
	"millrace/shared/tier"
)

// A dashboard is a grid of this width; a graph takes a third of it.
const (
	gridWidth   = 24
	graphWidth  = 8
	graphHeight = 6
)

// graph is one graph of the dashboard, of lines.
type graph struct {
	title string
	lines []metric
}

func addDashboard(stack awscdk.Stack, cfg Config, specs []fn.Spec) {
	var widgets []map[string]any
	for i, g := range graphs(cfg, specs) {
		perRow := gridWidth / graphWidth
		widgets = append(widgets, map[string]any{
			"type": "metric", "width": graphWidth, "height": graphHeight, "x": i % perRow * graphWidth, "y": i / perRow * graphHeight,
			"properties": map[string]any{"title": g.title, "region": cfg.Region, "period": 60, "view": "timeSeries", "metrics": lines(g.lines)},
		})
	}
	body, err := json.Marshal(map[string]any{"widgets": widgets})
	if err != nil {
		panic(fmt.Sprintf("infra: the dashboard does not marshal: %v", err)) // it has strings and numbers alone
	}
	awscloudwatch.NewCfnDashboard(stack, jsii.String("Dashboard"), &awscloudwatch.CfnDashboardProps{
		DashboardName: jsii.String(cfg.name("service")), DashboardBody: jsii.String(string(body)),
	})
}

// lines are metrics as a dashboard takes them.
func lines(metrics []metric) [][]any {
	out := make([][]any, len(metrics))
	for i, m := range metrics {
		out[i] = []any{m.namespace, m.name}
		for _, d := range m.dimensions {
			out[i] = append(out[i], d[0], d[1])
		}
		out[i] = append(out[i], map[string]any{"stat": m.statistic})
	}
	return out
}

// graphs are what an operator looks at, from the caller inwards.
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
	ofSandbox := func(title, name, statistic string) graph {
		g := graph{title: title}
		for _, t := range tier.All() {
			m := lambdaMetric(cfg, name, sandboxName(t))
			m.statistic = statistic
			g.lines = append(g.lines, m)
		}
		return g
	}
	ofQueues := func(title, name, statistic string, named func(string) string) graph {
		g := graph{title: title}
		for _, def := range catalog.Queues(specs) {
			g.lines = append(g.lines, queueMetric(cfg, name, statistic, named(def.Name)))
		}
		return g
	}
	own := func(name string) string { return name }
	return []graph{
		{"Requests", []metric{gatewayMetric(cfg, "Count", "Sum"), gatewayMetric(cfg, "4XXError", "Sum"), gatewayMetric(cfg, "5XXError", "Sum")}},
		{"Time to answer, ms", []metric{gatewayMetric(cfg, "Latency", "p50"), gatewayMetric(cfg, "Latency", "p99")}},
		ofFunctions("Invocations", "Invocations", "Sum"),
		ofFunctions("Failed invocations", "Errors", "Sum"),
		ofFunctions("Duration p95, ms", "Duration", "p95"),
		ofFunctions("Environments at once", "ConcurrentExecutions", "Maximum"),
		ofSandbox("Tasks started", "Invocations", "Sum"),
		ofSandbox("Sandboxes that crashed", "Errors", "Sum"),
		ofSandbox("Sandboxes at once", "ConcurrentExecutions", "Maximum"),
		ofQueues("Messages waiting", "ApproximateNumberOfMessagesVisible", "Maximum", own),
		ofQueues("Oldest message, s", "ApproximateAgeOfOldestMessage", "Maximum", own),
		ofQueues("Dead letters", "ApproximateNumberOfMessagesVisible", "Maximum", queue.Dead),
		{"Table, units consumed", []metric{tableMetric(cfg, "ConsumedReadCapacityUnits"), tableMetric(cfg, "ConsumedWriteCapacityUnits")}},
		{"Table, throttled", []metric{tableMetric(cfg, "ReadThrottleEvents"), tableMetric(cfg, "WriteThrottleEvents")}},
		{"Table, conflicts of transactions", []metric{tableMetric(cfg, "TransactionConflict")}},
	}
}
