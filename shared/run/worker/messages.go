package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"

	"millrace/events"
)

// The delays before a message is delivered again after an error.
const (
	firstRetry = 2 * time.Second
	mostRetry  = time.Minute
)

// Messages handles a batch of queue messages side by side, and answers which of
// them are to be delivered again.
func (c *Worker) Messages(ctx context.Context, batch lambda.SQSEvent) (lambda.SQSEventResponse, error) {
	var (
		mu  sync.Mutex
		out lambda.SQSEventResponse
		wg  sync.WaitGroup
	)
	handle := func(m lambda.SQSMessage) {
		if c.message(ctx, m) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		out.BatchItemFailures = append(out.BatchItemFailures, lambda.SQSBatchItemFailure{ItemIdentifier: m.MessageId})
	}
	if len(batch.Records) == 1 {
		handle(batch.Records[0])
		return out, nil
	}
	for _, m := range batch.Records {
		wg.Go(func() { handle(m) })
	}
	wg.Wait()
	return out, nil
}

// message handles one message; false if it is to be delivered again.
func (c *Worker) message(ctx context.Context, m lambda.SQSMessage) bool {
	var run events.Run
	if err := json.Unmarshal([]byte(m.Body), &run); err != nil {
		c.Log.ErrorContext(ctx, "message is not readable", "message", m.MessageId, "error", err)
		return false
	}
	receives, _ := strconv.Atoi(m.Attributes["ApproximateReceiveCount"])
	queue := m.EventSourceARN[strings.LastIndexByte(m.EventSourceARN, ':')+1:]
	began := c.Clock.Now()
	d := newDriver(c.session(run.Org, run.Run))
	d.queue = queue
	d.waited(m, run, receives, began)
	ctx = d.about(ctx, run.Trace)
	err := d.recovered(ctx, run, receives)
	if ctx.Err() == nil && !errors.Is(err, context.Canceled) { // it does not stop
		d.handled(ctx, run, receives, c.Clock.Now().Sub(began), err)
	}
	if err == nil {
		return true
	}
	extend, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	again := min(firstRetry<<min(max(receives-1, 0), 10), mostRetry) //guard:message/failed return true
	if err := c.Queues.Extend(extend, queue, again, m.ReceiptHandle); err != nil {
		c.Log.WarnContext(ctx, "message not deferred", "error", err)
	}
	return false
}

// recovered handles a message. A panic is an error of that message alone, and
// not of those that are handled beside it.
func (d *driver) recovered(ctx context.Context, m events.Run, deliveries int) (err error) {
	defer func() {
		if p := recover(); p != nil { //guard:message/panic when false
			d.Log.ErrorContext(ctx, "handler panicked", "kind", m.Kind, "panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			err = errors.New("worker: the handler panicked")
		}
	}()
	return d.handle(ctx, m, deliveries)
}
