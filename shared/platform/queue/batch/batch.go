// Package batch handles the messages of a queue as Lambda passes them to a
// function: concurrently, each on its own, with the failed ones delivered again
// after a delay that grows with their deliveries.
package batch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"

	"millrace/shared/platform/queue"
)

// Delays before a failed message is delivered again.
const (
	firstRetry = 2 * time.Second
	maxRetry   = time.Minute
)

// extendTimeout bounds the request that delays a failed message.
const extendTimeout = 5 * time.Second

// ErrPanicked means that the function called by Recover panicked.
var ErrPanicked = errors.New("batch: the handler panicked")

// Message is a message of a batch.
type Message struct {
	lambda.SQSMessage
	Queue    string // that it was received from
	Receives int    // 1 in the first delivery; 0 if the message does not tell
}

// Handler handles batches of messages.
type Handler struct {
	Queues queue.Queues // to delay failed messages
	Log    *slog.Logger
	// Do handles a message. If it returns nil, the message is done. After an error
	// it is delivered again with a growing delay or that of [RetryAfter], and
	// becomes a dead letter after queue.MaxReceives deliveries. Do logs its own
	// errors.
	Do func(context.Context, Message) error
}

// Messages handles a batch and returns the messages to be delivered again, in
// the order of the batch. The error is always nil.
func (h Handler) Messages(ctx context.Context, batch lambda.SQSEvent) (out lambda.SQSEventResponse, err error) {
	failed := make([]bool, len(batch.Records))
	if len(batch.Records) == 1 { // the common case needs no goroutine
		failed[0] = !h.handle(ctx, batch.Records[0])
	} else {
		var wg sync.WaitGroup
		for i, m := range batch.Records {
			wg.Go(func() { failed[i] = !h.handle(ctx, m) })
		}
		wg.Wait()
	}
	for i, m := range batch.Records {
		if failed[i] {
			out.BatchItemFailures = append(out.BatchItemFailures, lambda.SQSBatchItemFailure{ItemIdentifier: m.MessageId})
		}
	}
	return out, nil
}

// handle handles one message and reports whether it is done. One that is not is
// delayed, by less than the visibility time-out of its queue.
func (h Handler) handle(ctx context.Context, raw lambda.SQSMessage) bool {
	m := Message{SQSMessage: raw, Queue: raw.EventSourceARN[strings.LastIndexByte(raw.EventSourceARN, ':')+1:]}
	m.Receives, _ = strconv.Atoi(raw.Attributes["ApproximateReceiveCount"])
	err := Recover(ctx, h.Log, func() error { return h.Do(ctx, m) })
	if err == nil {
		return true
	}
	delay := min(firstRetry<<min(max(m.Receives-1, 0), 10), maxRetry) //guard:message/failed return true
	if r, ok := errors.AsType[*retryError](err); ok {
		delay = r.delay
	}
	extend, cancel := context.WithTimeout(context.WithoutCancel(ctx), extendTimeout)
	defer cancel()
	if err := h.Queues.Extend(extend, m.Queue, delay, m.ReceiptHandle); err != nil {
		h.Log.WarnContext(ctx, "message not deferred", "queue", m.Queue, "message", m.MessageId, "error", err)
	}
	return false
}

// retryError is an error with a delay of its own.
type retryError struct {
	error
	delay time.Duration
}

func (e *retryError) Unwrap() error { return e.error }

// RetryAfter returns an error that wraps err, which is not nil. A message whose
// Do returns it is delivered again after the delay.
func RetryAfter(delay time.Duration, err error) error { return &retryError{err, delay} }

// Recover calls f and returns its error. If f panics, Recover logs the stack and
// returns ErrPanicked, so that the other messages of the batch are handled. The
// panic's value may contain the data of a user; only its type is logged.
func Recover(ctx context.Context, log *slog.Logger, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil { //guard:message/panic when false
			log.ErrorContext(ctx, "handler panicked", "panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			err = ErrPanicked
		}
	}()
	return f()
}
