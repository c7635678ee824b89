// Package queue is the port to message queues with the semantics of SQS
// standard queues: at least once, in no order, a visibility time-out, a delay,
// batches of 10, redrive to a dead-letter queue, and message groups that share
// a queue fairly. Drivers: package sqs beside it and the embedded server's;
// package queuetest is the suite both pass.
package queue

import (
	"context"
	"errors"
	"time"
)

// The limits of a queue.
const (
	MaxBatch    = 10               // messages of one request
	MaxDelay    = 15 * time.Minute // of a message
	MaxBody     = 1 << 20          // bytes of one message, and of one request
	MaxWait     = 20 * time.Second // of a Receive
	MaxExtend   = 12 * time.Hour   // of a visibility time-out
	MaxReceives = 10               // deliveries before redrive to the dead-letter queue
	MaxGroup    = 128              // characters of a group, printable ASCII without spaces
)

// BodyFolder is the folder of the object store, in each workspace, where a
// driver keeps bodies that its messages do not hold.
const BodyFolder = "messages"

// The errors of every driver.
var (
	// ErrUnknownQueue: no queue has that name.
	ErrUnknownQueue = errors.New("queue: unknown queue")
	// ErrLimit: a message breaks a limit; wrapped with which.
	ErrLimit = errors.New("queue: limit exceeded")
	// ErrReceipt: the receipt is not one of this queue's, or its message was
	// deleted or delivered again since.
	ErrReceipt = errors.New("queue: receipt no longer valid")
	// ErrNotConfigured: no queue is configured (reported by Check).
	ErrNotConfigured = errors.New("queue: not configured")
)

// Message is a message to send.
type Message struct {
	Body  []byte        // JSON
	Group string        // the workspace, for fair sharing; "" is a group of its own
	Delay time.Duration // up to MaxDelay, whole seconds on SQS (rounded up)
}

// Delivery is one delivery of a message.
type Delivery struct {
	ID       string // the message's, the same at every delivery
	Receipt  string // this delivery's, for Delete and Extend
	Body     []byte // read only
	Group    string
	Receives int       // 1 at the first delivery, or more after a restart of the driver's server
	Sent     time.Time // when the message was sent
}

// Stats is the state of a queue; counts are approximate on SQS.
type Stats struct {
	Visible  int           // waiting for delivery
	InFlight int           // delivered, not deleted, not visible again
	Delayed  int           // not yet due
	Oldest   time.Duration // age of the oldest waiting message, 0 if none waits or the driver can't tell
}

// Queues is the port. All methods are safe for concurrent use and take the
// queue's name; ErrUnknownQueue if there is no such queue.
type Queues interface {
	// Send accepts messages, any number; the driver splits them into batches.
	// When it returns nil all are kept; after an error some may be.
	Send(ctx context.Context, queue string, msgs ...Message) error
	// Receive returns up to max messages (1 to 10), each invisible to others
	// for the queue's visibility time-out, or none after wait (0 to MaxWait).
	// Groups take turns, so one workspace's backlog does not hold up another.
	Receive(ctx context.Context, queue string, max int, wait time.Duration) ([]Delivery, error)
	// Delete removes delivered messages; those gone already are fine.
	Delete(ctx context.Context, queue string, receipts ...string) error
	// Extend makes deliveries invisible for d from now; 0 returns them at once.
	// ErrReceipt if one is no longer held.
	Extend(ctx context.Context, queue string, d time.Duration, receipts ...string) error
	// Depth is how many messages could be received now: neither delayed nor in
	// flight. It is approximate on SQS, and costs less than Stats.
	Depth(ctx context.Context, queue string) (int, error)
	// Stats reads the queue's attributes.
	Stats(ctx context.Context, queue string) (Stats, error)
}

// Definition is a queue to be created: every queue has a dead-letter queue
// named with the suffix "-dead", to which a message goes when MaxReceives
// deliveries did not delete it.
type Definition struct {
	Name       string
	Visibility time.Duration
}

// Dead returns the name of a queue's dead-letter queue.
func Dead(queue string) string { return queue + "-dead" }
