// Package consumer handles the events of the bus that a function gets through its
// queue, at least once each: what was handled is remembered by workspace,
// consumer and dedupe key, so that an event that is delivered or published again
// is not handled again.
//
// An event goes through four steps. (1) It is claimed for the time of a lease by a
// conditional write. An event that was handled is done with, one that another
// holds comes again when that lease has run out. (2) Its handler runs, for no
// longer than the lease. (3) It is marked as handled; or, if the handler failed,
// the claim is given up, and the message comes again after a pause that grows. (4)
// The message is deleted. A crash before (3) leaves the lease to run out; one
// after it, the mark.
//
// So a handler runs again if it failed, or if the process died between its last
// effect and the mark. A handler whose effect is a transaction of the table puts
// [Delivery.Handled] into it and takes effect exactly once.
//
// A message that is no event of the service, or one that no handler is for, is
// logged and goes to the dead-letter queue.
package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"

	"millrace/shared/platform/bus"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
)

// Remember is how long a handled event is known. Queues and dead-letter queues
// keep messages for 14 days at most.
const Remember = 15 * 24 * time.Hour

// The delays before a message is delivered again.
const (
	firstRetry = 2 * time.Second
	mostRetry  = time.Minute
	unreadable = time.Second // on its way to the dead-letter queue
	deferring  = 5 * time.Second
)

// Config is what a consumer is made of; all of it is needed.
type Config struct {
	Name   string // by which events are remembered: a new one handles them anew
	Table  table.Table
	Queues queue.Queues // to have messages come again
	Clock  clock.Clock
	Log    *slog.Logger
	Lease  time.Duration // for which a handler may run: at most the function's time-out
}

// Route is the handler of one type of event.
type Route struct {
	detailType string
	handle     func(ctx context.Context, d *Delivery) error
}

// On has a function handle the events of a type, whose detail is a T. What it
// returns an error for comes again, up to queue.MaxReceives times. It looks at
// the delivery's Version if the shape of T has changed.
func On[T any](detailType string, handle func(ctx context.Context, d *Delivery, detail T) error) Route {
	return Route{detailType, func(ctx context.Context, d *Delivery) error {
		var detail T
		if err := json.Unmarshal(d.Detail, &detail); err != nil {
			return fmt.Errorf("%w: detail: %w", errUnreadable, err)
		}
		return handle(ctx, d, detail)
	}}
}

var errUnreadable = errors.New("consumer: unreadable event")

// Consumer hands events to its routes.
type Consumer struct {
	cfg    Config
	routes map[string]Route
}

// New makes a consumer. It panics if two routes are for one type.
func New(cfg Config, routes ...Route) *Consumer {
	c := &Consumer{cfg: cfg, routes: map[string]Route{}}
	for _, r := range routes {
		if _, twice := c.routes[r.detailType]; twice {
			panic("consumer " + cfg.Name + ": two routes for " + r.detailType)
		}
		c.routes[r.detailType] = r
	}
	return c
}

// Messages handles a batch of messages side by side, and answers which of them are
// to be delivered again.
func (c *Consumer) Messages(ctx context.Context, batch lambda.SQSEvent) (lambda.SQSEventResponse, error) {
	var (
		mu  sync.Mutex
		out lambda.SQSEventResponse
		wg  sync.WaitGroup
	)
	for _, m := range batch.Records {
		wg.Go(func() {
			again, err := c.message(ctx, m)
			if err == nil {
				return
			}
			c.postpone(ctx, m, again)
			mu.Lock()
			defer mu.Unlock()
			out.BatchItemFailures = append(out.BatchItemFailures, lambda.SQSBatchItemFailure{ItemIdentifier: m.MessageId})
		})
	}
	wg.Wait()
	return out, nil
}

// message handles one message; with an error it is to come again after a while.
func (c *Consumer) message(ctx context.Context, m lambda.SQSMessage) (again time.Duration, err error) {
	receives, _ := strconv.Atoi(m.Attributes["ApproximateReceiveCount"])
	d, route, err := c.read(m)
	if err != nil {
		return c.refuse(ctx, m, receives, err)
	}
	log := c.cfg.Log.With("consumer", c.cfg.Name, "type", d.DetailType, "event", d.ID, "org_id", d.Workspace)
	again = min(firstRetry<<min(max(receives-1, 0), 10), mostRetry)
	held, err := d.take(ctx)
	switch {
	case err != nil:
		log.ErrorContext(ctx, "event not claimed", "error", err)
		return again, err
	case held == handled:
		return 0, nil
	case held > 0:
		return held, errors.New("consumer: another process holds the event")
	}
	if err := c.run(ctx, d, route); err != nil {
		d.release(ctx, log)
		if errors.Is(err, errUnreadable) {
			return c.refuse(ctx, m, receives, err)
		}
		log.ErrorContext(ctx, "event not handled", "receives", receives, "error", err)
		return again, err
	}
	d.finish(ctx, log)
	return 0, nil
}

// read finds the event of a message and its route.
func (c *Consumer) read(m lambda.SQSMessage) (*Delivery, Route, error) {
	envelope, err := bus.DecodeEnvelope([]byte(m.Body))
	if err != nil {
		return nil, Route{}, err
	}
	event, err := envelope.Event()
	if err != nil {
		return nil, Route{}, err
	}
	route, ok := c.routes[event.DetailType]
	switch {
	case !ok:
		return nil, Route{}, fmt.Errorf("%w: no handler for the type %s", errUnreadable, event.DetailType)
	case event.Workspace == "":
		return nil, Route{}, fmt.Errorf("%w: %s of no workspace", errUnreadable, event.DetailType)
	}
	return newDelivery(&c.cfg, event), route, nil
}

// refuse has a message come again until it is a dead letter, and logs it once.
func (c *Consumer) refuse(ctx context.Context, m lambda.SQSMessage, receives int, cause error) (time.Duration, error) {
	if receives <= 1 {
		c.cfg.Log.ErrorContext(ctx, "message is no event to handle, it becomes a dead letter",
			"consumer", c.cfg.Name, "message", m.MessageId, "error", cause)
	}
	return unreadable, cause
}

// run calls the handler. A panic is an error of that event alone.
func (c *Consumer) run(ctx context.Context, d *Delivery, route Route) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("consumer: handler panicked: %v\n%s", p, debug.Stack())
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Lease)
	defer cancel()
	return route.handle(ctx, d)
}

// postpone has a message come again after a while, not after the whole visibility
// time-out of its queue.
func (c *Consumer) postpone(ctx context.Context, m lambda.SQSMessage, again time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deferring)
	defer cancel()
	from := m.EventSourceARN[strings.LastIndexByte(m.EventSourceARN, ':')+1:]
	if err := c.cfg.Queues.Extend(ctx, from, again, m.ReceiptHandle); err != nil {
		c.cfg.Log.WarnContext(ctx, "message not deferred", "consumer", c.cfg.Name, "message", m.MessageId, "error", err)
	}
}
