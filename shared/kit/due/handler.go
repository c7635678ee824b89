package due

import (
	"context"
	"log/slog"

	lambda "github.com/aws/aws-lambda-go/events"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/queue/batch"
	"millrace/shared/platform/telemetry"
)

// Handler handles the messages of a function's kinds.
type Handler struct {
	Queues  queue.Queues
	Clock   clock.Clock
	Log     *slog.Logger
	Metrics *telemetry.Metrics // nil: nothing is measured
	// Do handles a task, in a context of its workspace (package tenant) without a
	// principal. If it returns nil the message is done; after an error it is
	// delivered again with a growing delay, and finally becomes a dead letter. The
	// tasks of a batch run concurrently.
	Do func(context.Context, Task) error
}

// Messages handles a batch of messages and returns those to be delivered again
// (see package batch). An unreadable message is logged and dropped: it would not
// become readable, and its entry comes up again.
func (h Handler) Messages(ctx context.Context, messages lambda.SQSEvent) (lambda.SQSEventResponse, error) {
	return batch.Handler{Queues: h.Queues, Log: h.Log, Do: h.message}.Messages(ctx, messages)
}

// message handles one message.
func (h Handler) message(ctx context.Context, m batch.Message) error {
	began := h.Clock.Now()
	task, err := ReadTask([]byte(m.Body), began)
	if err != nil {
		h.Log.ErrorContext(ctx, "due message dropped: it is not readable", "message", m.MessageId, "error", err)
		return nil
	}
	subject := telemetry.From(ctx)
	subject.Workspace = task.Org()
	ctx = tenant.With(telemetry.With(ctx, &subject), tenant.Principal{OrgID: task.Org()})
	err = batch.Recover(ctx, h.Log, func() error { return h.Do(ctx, task) })
	h.Metrics.Call(subject.Function, h.Clock.Now().Sub(began), string(errs.CodeOf(err)))
	if err != nil && ctx.Err() == nil { // not when shutting down
		h.Log.ErrorContext(ctx, "due task failed", "kind", task.Kind, "item", task.Key, "due_at", task.At, "deliveries", m.Receives, "error", err)
	}
	return err
}
