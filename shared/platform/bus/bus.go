// Package bus is the port to the event bus, with the semantics of EventBridge:
// events are published to a bus, rules pick those whose detail type they name
// and hand each to a function, at least once and in no order. Drivers: package
// eventbridge beside it and the embedded server's; package bustest is the
// suite both pass.
package bus

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Source is the source of every event of the service.
const Source = "millrace"

// The limits of a bus.
const (
	MaxBatch = 10        // events of one request
	MaxEntry = 256 << 10 // bytes of one event, and of one request
)

// ErrLimit: an event breaks a limit, or its detail is no JSON object; wrapped
// with which.
var ErrLimit = errors.New("bus: limit exceeded")

// Event is one event, to publish or as it was received.
type Event struct {
	DetailType string          // e.g. "run.finished"
	Detail     json.RawMessage // a JSON object
	Workspace  string          // carried as a resource, and as the message group where a rule feeds a queue
	Time       time.Time       // in milliseconds; the time of publishing if zero
	ID         string          // the same at every delivery; "": a new one
	Version    int             // of the shape of Detail; 0: 1
	// DedupeKey is the same of events that say the same thing, among those of one
	// type and workspace, however often they are published; "": a digest of Detail.
	DedupeKey string
}

// Bus is the port.
type Bus interface {
	// Publish hands events over, any number; the driver splits them into
	// batches and resends those refused. When it returns nil all are kept;
	// after an error some may be.
	Publish(ctx context.Context, events ...Event) error
}
