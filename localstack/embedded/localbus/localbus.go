// Package localbus is the embedded server's driver of package bus: each rule
// feeds a queue, from which the runtime delivers the events to a function. An
// event that Publish accepted is therefore as durable as a message, and retried
// as often.
package localbus

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"millrace/shared/platform/bus"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/queue"
)

// Origin fields of an envelope.
const (
	Account = "000000000000"
	Region  = "local"
)

// Rule sends the events of some detail types to a queue.
type Rule struct {
	DetailTypes []string // exact; at least one
	// Where limits them to those in whose detail each of the named fields is one
	// of the texts. nil: all of them.
	Where map[string][]string
	Queue string
}

// selects reports whether the rule selects an event of one of its types.
func (r *Rule) selects(event *bus.Event) bool {
	if len(r.Where) == 0 {
		return true
	}
	var fields map[string]any
	if err := json.Unmarshal(event.Detail, &fields); err != nil {
		return false
	}
	for name, texts := range r.Where {
		if text, ok := fields[name].(string); !ok || !slices.Contains(texts, text) {
			return false
		}
	}
	return true
}

// Bus is the embedded bus.
type Bus struct {
	queues queue.Queues
	clock  clock.Clock
	routes map[string][]*Rule // by detail type
}

var _ bus.Bus = (*Bus)(nil)

// New returns a bus with rules. If several rules send a detail type to the same
// queue, its events are sent there once.
func New(queues queue.Queues, rules []Rule) *Bus {
	b := &Bus{queues: queues, clock: clock.System{}, routes: make(map[string][]*Rule)}
	for i := range rules {
		for _, detailType := range rules[i].DetailTypes {
			b.routes[detailType] = append(b.routes[detailType], &rules[i])
		}
	}
	return b
}

// queuesOf returns the queues that an event is sent to, each once.
func (b *Bus) queuesOf(event *bus.Event) (out []string) {
	for _, rule := range b.routes[event.DetailType] {
		if !slices.Contains(out, rule.Queue) && rule.selects(event) {
			out = append(out, rule.Queue)
		}
	}
	return out
}

// Publish checks all events before it sends any. An event that no rule matches
// costs only the check.
func (b *Bus) Publish(ctx context.Context, events ...bus.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range events {
		if err := events[i].Check(); err != nil {
			return err
		}
	}
	var order []string // queues in order of first use
	batches := make(map[string][]queue.Message)
	for _, event := range events {
		queues := b.queuesOf(&event)
		if len(queues) == 0 {
			continue
		}
		body, err := b.envelope(event)
		if err != nil {
			return err
		}
		for _, name := range queues {
			if batches[name] == nil {
				order = append(order, name)
			}
			batches[name] = append(batches[name], queue.Message{Body: body, Group: event.Workspace})
		}
	}
	for _, name := range order {
		if err := b.queues.Send(ctx, name, batches[name]...); err != nil {
			return fmt.Errorf("localbus: publish to queue %s: %w", name, err)
		}
	}
	return nil
}

// envelope encodes an event as EventBridge does, with its time in whole
// seconds.
func (b *Bus) envelope(event bus.Event) ([]byte, error) {
	now := b.clock.Now()
	event = event.Complete(now, ids.New(now))
	detail, err := event.Body()
	if err != nil {
		return nil, fmt.Errorf("localbus: %w", err)
	}
	// Not json.Marshal: its HTML escapes could make a detail six times as long.
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	err = encoder.Encode(bus.Envelope{
		Version:    "0",
		ID:         ids.New(now),
		DetailType: event.DetailType,
		Source:     bus.Source,
		Account:    Account,
		Time:       event.Time.UTC().Truncate(time.Second),
		Region:     Region,
		Resources:  event.Resources(),
		Detail:     detail,
	})
	if err != nil {
		return nil, fmt.Errorf("localbus: event %s: %w", event.DetailType, err)
	}
	return bytes.TrimSuffix(body.Bytes(), []byte("\n")), nil
}
