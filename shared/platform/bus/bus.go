// Package bus is the port to the event bus, with the semantics of EventBridge:
// events are published to a bus, and rules select events by detail type and
// deliver each to a function at least once, in no particular order. The drivers
// are package eventbridge and the embedded server's. Package bustest is the
// conformance suite of both.
package bus

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Source is the source of every event of the service.
const Source = "millrace"

// Limits of a bus.
const (
	MaxBatch = 10        // events of one request
	MaxEntry = 256 << 10 // bytes of one event, and of one request
)

// ErrLimit means that an event exceeds a limit, or that its detail is not a
// JSON object. It is wrapped with the reason.
var ErrLimit = errors.New("bus: limit exceeded")

// Event is an event to publish or a received one.
type Event struct {
	DetailType string          // e.g. "run.finished"
	Detail     json.RawMessage // a JSON object
	Workspace  string          // sent as a resource, and as the message group if a rule targets a queue
	Time       time.Time       // to the millisecond; zero means the time of publishing
	ID         string          // the same in every delivery; a new one is made if empty
	Version    int             // of the shape of Detail; 0 means 1
	// DedupeKey identifies an occurrence among the events of one type and
	// workspace: it is the same however often the occurrence is published. If
	// empty, it is a digest of Detail.
	DedupeKey string
}

// Bus is the port.
type Bus interface {
	// Publish publishes any number of events. The driver splits them into batches
	// and resends rejected ones. If it returns nil, the bus has accepted all of
	// them; after an error it may have accepted some.
	Publish(ctx context.Context, events ...Event) error
}
