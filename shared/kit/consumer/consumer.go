// Package consumer handles bus events that a function receives through its
// queue, at least once each. Handled events are recorded by workspace, consumer
// and dedupe key, so that an event delivered or published again is not handled
// again.
//
// An event goes through four steps. (1) It is claimed for the duration of a
// lease by a conditional write. An event that was handled is skipped; one held
// by another delivery is delivered again when that lease has expired. (2) Its
// handler runs, for at most the lease. (3) It is marked as handled; or, if the
// handler failed, the claim is released and the message is delivered again
// after a growing delay. (4) The message is deleted. After a crash before (3)
// the lease must expire; after a crash behind it, the mark is found.
//
// A handler therefore runs again if it failed, or if the process died between
// its last effect and the mark. A handler whose effect is a table transaction
// includes [Delivery.Handled] in it and takes effect exactly once.
//
// A handler that can be repeated at any time, also concurrently, needs none of
// (1) and (3) (Config.Repeatable).
//
// A message that is not an event of the service, or that has no handler, is
// logged and goes to the dead-letter queue.
package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/bus"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/queue/batch"
	"millrace/shared/platform/table"
)

// Retention is how long a handled event is remembered. Queues and dead-letter
// queues keep messages for at most 14 days.
const Retention = 15 * 24 * time.Hour

// unreadableDelay is the delay before an unreadable message is delivered again,
// on its way to the dead-letter queue.
const unreadableDelay = time.Second

// writeTimeout bounds the writes after a handler.
const writeTimeout = 5 * time.Second

// Config configures a consumer. All fields but Repeatable are required.
type Config struct {
	Name   string // under which events are recorded; a new name handles them anew
	Table  table.Table
	Queues queue.Queues // to delay messages
	Clock  clock.Clock
	Log    *slog.Logger
	Lease  time.Duration // how long a handler may run; at most the function's time-out
	// Repeatable means that handling an event again, or in two processes at once,
	// changes nothing. Events are then neither claimed nor recorded: they cost no
	// writes, and that of a process that died does not wait for its lease.
	Repeatable bool
}

// Route is the handler for one type of event.
type Route struct {
	detailType string
	handle     func(ctx context.Context, d *Delivery) error
}

// On returns a Route that handles events of a type, whose detail is a T, in a
// context of their workspace (package tenant) without a caller. If handle fails,
// the event is delivered again, up to queue.MaxReceives times. handle checks the
// delivery's Version if the shape of T has changed.
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

// Consumer dispatches events to its routes.
type Consumer struct {
	cfg    Config
	routes map[string]Route
}

// New returns a consumer. It panics if two routes have the same type.
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

// Messages handles a batch of messages concurrently and returns those to be
// delivered again (see package batch).
func (c *Consumer) Messages(ctx context.Context, messages lambda.SQSEvent) (lambda.SQSEventResponse, error) {
	return batch.Handler{Queues: c.cfg.Queues, Log: c.cfg.Log, Do: c.message}.Messages(ctx, messages)
}

// message handles one message.
func (c *Consumer) message(ctx context.Context, m batch.Message) error {
	d, route, err := c.read(m)
	if err != nil {
		return c.reject(ctx, m, err)
	}
	log := c.cfg.Log.With("consumer", c.cfg.Name, "type", d.DetailType, "event", d.ID, "org_id", d.Workspace)
	var held time.Duration
	if !c.cfg.Repeatable {
		held, err = d.take(ctx)
	}
	switch {
	case err != nil:
		log.ErrorContext(ctx, "event not claimed", "error", err)
		return err
	case held == handled:
		return nil
	case held > 0:
		return batch.RetryAfter(held, errors.New("consumer: another process holds the event"))
	}
	if err := batch.Recover(ctx, log, func() error { return c.run(ctx, d, route) }); err != nil {
		if !c.cfg.Repeatable {
			d.release(ctx, log)
		}
		if errors.Is(err, errUnreadable) {
			return c.reject(ctx, m, err)
		}
		log.ErrorContext(ctx, "event not handled", "receives", m.Receives, "error", err)
		return err
	}
	if !c.cfg.Repeatable {
		d.finish(ctx, log)
	}
	return nil
}

// read returns the event of a message and its route.
func (c *Consumer) read(m batch.Message) (*Delivery, Route, error) {
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

// reject delivers a message again until it is a dead letter, and logs it once.
func (c *Consumer) reject(ctx context.Context, m batch.Message, cause error) error {
	if m.Receives <= 1 {
		c.cfg.Log.ErrorContext(ctx, "message is not an event with a handler, it becomes a dead letter",
			"consumer", c.cfg.Name, "message", m.MessageId, "error", cause)
	}
	return batch.RetryAfter(unreadableDelay, cause)
}

// run calls the handler, for at most the lease.
func (c *Consumer) run(ctx context.Context, d *Delivery, route Route) error {
	ctx, cancel := context.WithTimeout(tenant.With(ctx, tenant.Principal{OrgID: d.Workspace}), c.cfg.Lease)
	defer cancel()
	return route.handle(ctx, d)
}
