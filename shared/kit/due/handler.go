package due

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

	"millrace/shared/account/tenant"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/telemetry"
)

// Delays before a message is delivered again after an error.
const (
	firstRetry = 2 * time.Second
	mostRetry  = time.Minute
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

// Messages handles a batch of messages and returns those to be delivered again.
// An unreadable message is logged and dropped: it would not become readable,
// and its entry comes up again.
func (h Handler) Messages(ctx context.Context, batch lambda.SQSEvent) (lambda.SQSEventResponse, error) {
	failed := make([]bool, len(batch.Records))
	var wg sync.WaitGroup
	for i, m := range batch.Records {
		wg.Go(func() { failed[i] = !h.message(ctx, m) })
	}
	wg.Wait()
	var out lambda.SQSEventResponse
	for i, m := range batch.Records {
		if failed[i] {
			out.BatchItemFailures = append(out.BatchItemFailures, lambda.SQSBatchItemFailure{ItemIdentifier: m.MessageId})
		}
	}
	return out, nil
}

// message handles one message. It returns false if the message is to be
// delivered again.
func (h Handler) message(ctx context.Context, m lambda.SQSMessage) bool {
	began := h.Clock.Now()
	task, err := ReadTask([]byte(m.Body), began)
	if err != nil {
		h.Log.ErrorContext(ctx, "due message dropped: it is not readable", "message", m.MessageId, "error", err)
		return true
	}
	subject := telemetry.From(ctx)
	subject.Workspace = task.Org()
	ctx = tenant.With(telemetry.With(ctx, &subject), tenant.Principal{OrgID: task.Org()})
	err = h.recovered(ctx, task)
	h.Metrics.Call(subject.Function, h.Clock.Now().Sub(began), string(errs.CodeOf(err)))
	if err == nil {
		return true
	}
	receives, _ := strconv.Atoi(m.Attributes["ApproximateReceiveCount"])
	again := min(firstRetry<<min(max(receives-1, 0), 10), mostRetry)
	if ctx.Err() == nil { // not when shutting down
		h.Log.ErrorContext(ctx, "due task failed", "kind", task.Kind, "item", task.Key, "due_at", task.At, "deliveries", receives, "error", err)
	}
	extend, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	name := m.EventSourceARN[strings.LastIndexByte(m.EventSourceARN, ':')+1:]
	if err := h.Queues.Extend(extend, name, again, m.ReceiptHandle); err != nil {
		h.Log.WarnContext(ctx, "message not deferred", "error", err)
	}
	return false
}

// recovered handles a task. A panic becomes an error of that task alone, not of
// the others of its batch.
func (h Handler) recovered(ctx context.Context, task Task) (err error) {
	defer func() {
		if p := recover(); p != nil {
			h.Log.ErrorContext(ctx, "handler panicked", "kind", task.Kind, "panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			err = errors.New("due: the handler panicked")
		}
	}()
	return h.Do(ctx, task)
}
