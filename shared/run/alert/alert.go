// Package alert tells people about runs: it keeps the notification channels and
// alert rules of workspaces, and sends messages to channels.
//
// Stored items:
//
//	<org>#channels     <channel_id>
//	<org>#alert_rules  <rule_id>, which begins with the rule's trigger
package alert

import (
	"time"

	"millrace/shared/platform/clock"
)

// Trigger is what a rule waits for.
type Trigger string

// The triggers.
const (
	OnFailure   Trigger = "on_failure"    // a run failed, or timed out
	OnSuccess   Trigger = "on_success"    // a run succeeded
	OnSLABreach Trigger = "on_sla_breach" // a run takes longer than sla_seconds
	OnRetry     Trigger = "on_retry"      // a task is tried again
)

// event is what the messages of a trigger report.
type event struct {
	name     string // the type of a webhook's payload
	status   string // what happened, for people; empty: the run's status
	severity string // of an incident, as PagerDuty names it
}

var eventsOf = map[Trigger]event{
	OnFailure:   {"run.failed", "", "error"},
	OnSuccess:   {"run.succeeded", "", "info"},
	OnSLABreach: {"run.sla_breached", "SLA BREACHED", "warning"},
	OnRetry:     {"task.retried", "TASK RETRIED", "warning"},
}

// Message reports what a rule waits for to one channel.
type Message struct {
	// ID identifies the message. It is the same whenever the message is sent again,
	// so that receivers can ignore the repetition. Letters, digits, dots, dashes
	// and underscores, up to 128.
	ID   string
	Org  string    // the workspace
	At   time.Time // when it happened
	Rule Rule
	Run  Run
	Task *Task // of OnRetry
	// Resolved reports that the problem is over, which the rule reported in an
	// earlier message about the flow. Only incident channels take it.
	Resolved bool
	// Test marks a message that reports nothing: somebody tests the rule.
	Test bool
}

// Run is the run that a message is about.
type Run struct {
	RunID        string  `json:"run_id"`
	RunSlug      string  `json:"run_slug"`
	FlowName     string  `json:"flow_name"`
	FlowVersion  string  `json:"flow_version"`
	Environment  string  `json:"environment"`
	Status       string  `json:"status"`
	ErrorMessage *string `json:"error_message"` // null: there is none
	StartedAt    *string `json:"started_at"`    // RFC 3339 with milliseconds; null: not yet
	EndedAt      *string `json:"ended_at"`
	// URL is where the run is. Package alert sets it from the Sender's Links.
	URL *string `json:"url"`
}

// Task is the task attempt that a message is about: the one that failed and is
// followed by another.
type Task struct {
	TaskName     string `json:"task_name"`
	MapIndex     *int   `json:"map_index"` // null: the task is not mapped
	Attempt      int    `json:"attempt"`
	ErrorType    string `json:"error_type"`
	ErrorMessage string `json:"error_message"`
}

// about returns what the message reports.
func (m *Message) about() event { return eventsOf[m.Rule.Trigger] }

// incident identifies the problem that the message reports or declares over: the
// same for all messages of a rule about a flow.
func (m *Message) incident() string {
	key := m.Rule.RuleID + "/" + m.Run.FlowName
	if m.Test {
		key += "/" + m.ID
	}
	return key
}

// Sample returns the message that tests a rule. It reports a fictitious run.
func Sample(id, org string, rule Rule, now time.Time) Message {
	at := func(t time.Time) *string { return new(clock.Format(t)) }
	flow := "example"
	if rule.FlowName != nil {
		flow = *rule.FlowName
	}
	m := Message{
		ID: id, Org: org, At: now, Rule: rule, Test: true,
		Run: Run{
			RunID: "00000000000000000000000000", RunSlug: "test-of-alerts-0", FlowName: flow, FlowVersion: "1", Environment: "default",
			Status: "RUNNING", StartedAt: at(now.Add(-time.Minute)),
		},
	}
	switch rule.Trigger {
	case OnFailure:
		m.Run.Status, m.Run.EndedAt, m.Run.ErrorMessage = "FAILED", at(now), new("This is a test: no run failed")
	case OnSuccess:
		m.Run.Status, m.Run.EndedAt = "SUCCEEDED", at(now)
	case OnRetry:
		m.Task = &Task{TaskName: "example", Attempt: 1, ErrorType: "TaskFailedError", ErrorMessage: "This is a test: no task failed"}
	}
	return m
}
