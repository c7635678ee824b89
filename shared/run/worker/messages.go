package worker

import (
	"context"
	"encoding/json"
	"errors"

	lambda "github.com/aws/aws-lambda-go/events"

	"millrace/events"
	"millrace/shared/platform/queue/batch"
)

// Messages handles a batch of messages concurrently and returns those to be
// delivered again (see package batch).
func (c *Worker) Messages(ctx context.Context, messages lambda.SQSEvent) (lambda.SQSEventResponse, error) {
	return batch.Handler{Queues: c.Queues, Log: c.Log, Do: c.message}.Messages(ctx, messages)
}

// message handles one message.
func (c *Worker) message(ctx context.Context, m batch.Message) error {
	var run events.Run
	if err := json.Unmarshal([]byte(m.Body), &run); err != nil {
		c.Log.ErrorContext(ctx, "message is not readable", "message", m.MessageId, "error", err)
		return err
	}
	began := c.Clock.Now()
	d := newDriver(c.session(run.Org, run.Run))
	d.queue = m.Queue
	d.waited(m.SQSMessage, run, m.Receives, began)
	ctx = d.about(ctx, run.Trace)
	err := batch.Recover(ctx, c.Log, func() error { return d.handle(ctx, run, m.Receives) })
	if ctx.Err() == nil && !errors.Is(err, context.Canceled) { // the process does not stop
		d.handled(ctx, run, m.Receives, c.Clock.Now().Sub(began), err)
	}
	return err
}
