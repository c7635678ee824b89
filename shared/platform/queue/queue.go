// Package queue is the port to message queues with the semantics of SQS
// standard queues: delivery at least once, in no particular order, visibility
// time-outs, delays, batches of 10, redrive to a dead-letter queue, and message
// groups that share a queue fairly. The drivers are package sqs and the
// embedded server's. Package queuetest is the conformance suite of both.
package queue

import (
	"context"
	"errors"
	"time"
)

// Limits of a queue.
const (
	MaxBatch    = 10               // messages of one request
	MaxDelay    = 15 * time.Minute // of a message
	MaxBody     = 1 << 20          // bytes of one message, and of one request
	MaxWait     = 20 * time.Second // of a Receive
	MaxExtend   = 12 * time.Hour   // of a visibility time-out
	MaxReceives = 10               // deliveries before redrive to the dead-letter queue
	MaxGroup    = 128              // characters of a group, printable ASCII without spaces
)

// BodyFolder is the folder of each workspace in the object store where a driver
// keeps bodies that are too large for its messages.
const BodyFolder = "messages"

// Errors that every driver returns.
var (
	// ErrUnknownQueue means that no queue has that name.
	ErrUnknownQueue = errors.New("queue: unknown queue")
	// ErrLimit means that a message exceeds a limit. It is wrapped with the
	// reason.
	ErrLimit = errors.New("queue: limit exceeded")
	// ErrReceipt means that the receipt is not one of this queue's, or that its
	// message was deleted or delivered again since.
	ErrReceipt = errors.New("queue: receipt no longer valid")
	// ErrNotConfigured means that no queue is configured. Check returns it.
	ErrNotConfigured = errors.New("queue: not configured")
)

// Message is a message to send.
type Message struct {
	Body  []byte        // JSON
	Group string        // the workspace, for fair sharing; messages without a group form one group
	Delay time.Duration // up to MaxDelay; SQS rounds up to whole seconds
}

// Delivery is one delivery of a message.
type Delivery struct {
	ID       string // of the message, the same in every delivery
	Receipt  string // of this delivery, for Delete and Extend
	Body     []byte // read only
	Group    string
	Receives int       // 1 in the first delivery; may be more after a restart of the server
	Sent     time.Time // when the message was sent
}

// Stats is the state of a queue. The counts are approximate on SQS.
type Stats struct {
	Visible  int           // waiting for delivery
	InFlight int           // delivered, not deleted, and still invisible
	Delayed  int           // not yet due
	Oldest   time.Duration // age of the oldest waiting message; 0 if none waits or the driver does not know
}

// Queues is the port. All methods are safe for concurrent use, take the queue's
// name, and return ErrUnknownQueue if there is no such queue.
type Queues interface {
	// Send sends any number of messages. The driver splits them into batches. If
	// it returns nil, the queue has accepted all of them; after an error it may
	// have accepted some.
	Send(ctx context.Context, queue string, msgs ...Message) error
	// Receive returns up to max messages (1 to 10), or none after wait (0 to
	// MaxWait). The messages are invisible to other receivers for the queue's
	// visibility time-out. Groups take turns, so that the backlog of one workspace
	// does not delay another.
	Receive(ctx context.Context, queue string, max int, wait time.Duration) ([]Delivery, error)
	// Delete removes delivered messages. Already deleted ones are not an error.
	Delete(ctx context.Context, queue string, receipts ...string) error
	// Extend makes deliveries invisible for d from now; 0 makes them visible at
	// once. It returns ErrReceipt if one is no longer held.
	Extend(ctx context.Context, queue string, d time.Duration, receipts ...string) error
	// Depth returns the number of messages that could be received now: neither
	// delayed nor in flight. It is approximate on SQS and cheaper than Stats.
	Depth(ctx context.Context, queue string) (int, error)
	// Stats reads the queue's attributes.
	Stats(ctx context.Context, queue string) (Stats, error)
}

// Definition describes a queue to be created. Every queue has a dead-letter
// queue, named with the suffix "-dead", which receives messages that were not
// deleted after MaxReceives deliveries.
type Definition struct {
	Name       string
	Visibility time.Duration
}

// Dead returns the name of a queue's dead-letter queue.
func Dead(queue string) string { return queue + "-dead" }
