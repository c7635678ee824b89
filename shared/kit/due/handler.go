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

// The delays before a message is delivered again after an error.
const (
	firstRetry = 2 * time.Second
	mostRetry  = time.Minute
)

// Handler takes the messages of the kinds of a function.
type Handler struct {
	Queues  queue.Queues
	Clock   clock.Clock
	Log     *slog.Logger
	Metrics *telemetry.Metrics // nil: nothing is measured
	// Do deals with a task, in a context of its workspace (package tenant): the
	// caller is nobody. A nil error settles the message; after any other it is
	// delivered again, later each time, and in the end kept as a dead letter. Tasks
	// of a batch are dealt with side by side.
	Do func(context.Context, Task) error
}

// Messages handles a batch of messages and answers which are to be delivered
// again. One that cannot be read is logged and dropped: it would not be readable
// the next time either, and the entry comes up again.
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

// message handles one message; false if it is to be delivered again.
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
	if ctx.Err() == nil { // it does not stop
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

// recovered deals with a task. A panic is an error of that task alone, and not of
// those that are dealt with beside it.
func (h Handler) recovered(ctx context.Context, task Task) (err error) {
	defer func() {
		if p := recover(); p != nil {
			h.Log.ErrorContext(ctx, "handler panicked", "kind", task.Kind, "panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			err = errors.New("due: the handler panicked")
		}
	}()
	return h.Do(ctx, task)
}
