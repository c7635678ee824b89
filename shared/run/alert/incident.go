package alert

import (
	"cmp"
	"context"

	"github.com/go-json-experiment/json"

	"millrace/shared/platform/clock"
)

// eventsURL is where PagerDuty takes events.
const eventsURL = "https://events.pagerduty.com/v2/enqueue"

// pagerDuty is an event of PagerDuty's Events API v2.
type pagerDuty struct {
	RoutingKey string   `json:"routing_key"`
	Action     string   `json:"event_action"` // trigger or resolve
	DedupKey   string   `json:"dedup_key"`    // at most 255 characters
	Payload    *problem `json:"payload,omitempty"`
	Client     string   `json:"client,omitempty"`
	Links      []link   `json:"links,omitempty"`
}

type problem struct {
	Summary   string         `json:"summary"` // at most 1024 characters
	Source    string         `json:"source"`
	Severity  string         `json:"severity"`
	Timestamp string         `json:"timestamp"`
	Component string         `json:"component"`
	Class     string         `json:"class"`
	Details   map[string]any `json:"custom_details"`
}

type link struct {
	Href string `json:"href"`
	Text string `json:"text"`
}

// incident opens an incident, or resolves the one that the rule opened for the
// flow.
func (s *Sender) incident(ctx context.Context, config Config, m *Message) Result {
	e := pagerDuty{RoutingKey: config.RoutingKey, Action: "resolve", DedupKey: m.incident()}
	if !m.Resolved {
		details := map[string]any{"rule": m.Rule.Name, "run": m.Run, "test": m.Test}
		if m.Task != nil {
			details["task"] = m.Task
		}
		e.Action, e.Client = "trigger", "Millrace"
		e.Payload = &problem{
			Summary: m.summary(), Source: "millrace/" + m.Org, Severity: m.about().severity, Timestamp: clock.Format(m.At),
			Component: m.Run.FlowName, Class: m.about().name, Details: details,
		}
		if m.Run.URL != nil {
			e.Links = []link{{Href: *m.Run.URL, Text: "Run " + m.Run.RunSlug}}
		}
	}
	body, err := json.Marshal(e, json.Deterministic(true))
	if err != nil {
		return failed(false, "the message cannot be written as JSON")
	}
	return s.post(ctx, config, cmp.Or(config.URL, eventsURL), body, nil)
}

// summary is the title with the error, which is what a pager shows.
func (m *Message) summary() string {
	text := m.title()
	switch {
	case m.Task != nil:
		text += ": " + m.Task.title() + ": " + m.Task.ErrorMessage
	case m.Run.ErrorMessage != nil:
		text += ": " + *m.Run.ErrorMessage
	}
	return oneLine(text, maxError)
}
