package main

import (
	"fmt"
	"slices"
	"time"

	"millrace/events"
	"millrace/shared/platform/telemetry"
	"millrace/shared/run/tier"
	"millrace/shared/web/fn"
)

// Thresholds of what waits, fails to start, or is refused.
const (
	taskWait        = 5 * time.Minute  // a task's message for a worker; p95
	startWait       = time.Minute      // a run for its start; p95
	sandboxWait     = 10 * time.Minute // an event for a sandbox
	sandboxFailures = 50               // percent of the invocations of a tier
	sandboxCount    = 5                // failed invocations that a percentage needs
	claimedPercent  = 80               // of the account's concurrency
	blockedRequests = 500              // by the firewall in five minutes
)

// waiting returns the alarm of the messages that wait in a queue. The age of a
// message counts while it is handled, and while it is delayed: for the queues of
// runs and tasks, which have both for a quarter of an hour, the alarm is that
// messages wait and none is received.
func waiting(cfg Config, name string) alarm {
	id := camel(name)
	if !slices.Contains(events.AllQueues(), name) {
		return alarm{
			id: id + "Oldest", doc: "Messages of " + name + " wait: its function is too slow, throttled, or stopped.",
			metric: queueMetric(cfg, "ApproximateAgeOfOldestMessage", "Maximum", name), threshold: oldestMessage.Seconds(),
		}
	}
	return alarm{
		id: id + "Stuck", doc: "Messages of " + name + " wait and none is received: its function is throttled, or its event source mapping stopped.",
		expression: "IF(FILL(waiting, 0) > 0 AND FILL(received, 0) == 0, 1, 0)", threshold: 1, periods: 3,
		terms: map[string]metric{
			"waiting":  queueMetric(cfg, "ApproximateNumberOfMessagesVisible", "Minimum", name),
			"received": queueMetric(cfg, "NumberOfMessagesReceived", "Sum", name),
		},
	}
}

// capacityAlarms returns the alarms of what waits although nothing has failed,
// and of failures outside of functions.
func capacityAlarms(cfg Config, specs []fn.Spec) []alarm {
	list := []alarm{
		{
			id: "AccountConcurrency", doc: "The account's concurrent executions run short: soon functions are throttled, of all its deployments.",
			expression: "100 * claimed / SERVICE_QUOTA(used)", threshold: claimedPercent, periods: 2,
			terms: map[string]metric{
				"claimed": {"AWS/Lambda", "ClaimedAccountConcurrency", "Maximum", nil},
				"used": {"AWS/Usage", "ResourceCount", "Maximum", [][2]string{
					{"Class", "None"}, {"Resource", "ConcurrentExecutions"}, {"Service", "Lambda"}, {"Type", "Resource"},
				}},
			},
		},
		{
			id: "FirewallBlocks", doc: "The firewall refuses many requests: a flood, an attack, or a rule that takes users for one.",
			metric: metric{"AWS/WAFV2", "BlockedRequests", "Sum", [][2]string{
				{"Region", cfg.Region}, {"Rule", "ALL"}, {"WebACL", cfg.name("all")},
			}},
			threshold: blockedRequests,
		},
	}
	for _, s := range specs {
		rule := [][2]string{{"RuleName", cfg.name(s.Name)}}
		switch {
		case s.Trigger.EveryMinute, s.Trigger.Probe:
		case len(s.Trigger.DetailTypes) > 0:
			rule = append([][2]string{{"EventBusName", cfg.name("bus")}}, rule...)
		default:
			continue
		}
		list = append(list, alarm{
			id: camel(s.Name) + "RuleFails", doc: "The rule of " + s.Name + " cannot reach its target: a permission, the key, or the target is missing.",
			metric: metric{"AWS/Events", "FailedInvocations", "Sum", rule}, threshold: 1,
		})
	}
	for _, t := range cfg.Tiers.All() {
		list = append(list, sandboxAlarms(cfg, t)...)
		if _, found := feeds(specs)[events.Tasks(string(t))]; !found {
			continue
		}
		of := [][2]string{{"Tier", string(t)}}
		list = append(list,
			alarm{
				id: "QueueDelay" + camel(string(t)), doc: "Tasks of " + string(t) + " wait for a worker: more is started than the account's concurrency allows.",
				metric: metric{cfg.namespace(), telemetry.QueueDelay.String(), "p95", of}, threshold: float64(taskWait.Milliseconds()), periods: 2,
			},
			alarm{
				id: "StartDelay" + camel(string(t)), doc: "Runs of " + string(t) + " start late.",
				metric: metric{cfg.namespace(), telemetry.StartDelay.String(), "p95", of}, threshold: float64(startWait.Milliseconds()), periods: 2,
			})
	}
	return list
}

// sandboxAlarms returns the alarms of a tier whose sandboxes do not start. They
// have no log, which users' code could write to.
func sandboxAlarms(cfg Config, t tier.Tier) []alarm {
	name := sandboxName(t)
	id := camel(name)
	return []alarm{
		{
			id: id + "CannotStart", doc: "Most invocations of " + name + " fail: the runner does not start, or each of its tasks needs more memory than the tier has.",
			expression: fmt.Sprintf("IF(errors >= %d, 100 * errors / invocations, 0)", sandboxCount), threshold: sandboxFailures, periods: 2,
			terms: map[string]metric{"errors": lambdaMetric(cfg, "Errors", name), "invocations": lambdaMetric(cfg, "Invocations", name)},
		},
		{
			id: id + "EventAge", doc: "Tasks of " + name + " wait in Lambda's own queue: the account or a workspace runs as many as it may.",
			metric: metric{"AWS/Lambda", "AsyncEventAge", "Maximum", [][2]string{{"FunctionName", cfg.name(name)}}}, threshold: float64(sandboxWait.Milliseconds()), periods: 2,
		},
		{
			id: id + "Dropped", doc: "Lambda gave up events of " + name + ": their attempts are handed off anew after half an hour.",
			metric: lambdaMetric(cfg, "AsyncEventsDropped", name), threshold: 1,
		},
	}
}
