package conductor

import (
	"context"
	"encoding/json"
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
func (c *Conductor) Messages(ctx context.Context, batch lambda.SQSEvent) (lambda.SQSEventResponse, error) {
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
func (c *Conductor) message(ctx context.Context, m lambda.SQSMessage) bool {
	var run events.Run
	if err := json.Unmarshal([]byte(m.Body), &run); err != nil {
		c.Log.Error("message is not readable", "message", m.MessageId, "error", err)
		return false
	}
	receives, _ := strconv.Atoi(m.Attributes["ApproximateReceiveCount"])
	verdict, err := c.Handle(ctx, run, receives)
	switch {
	case err != nil:
		if ctx.Err() == nil {
			c.Log.Error("message failed", "run", run.Run, "kind", run.Kind, "node", run.Node, "deliveries", receives, "error", err)
		}
		verdict.Again = min(firstRetry<<max(receives-1, 0), mostRetry)
	case verdict.Again == 0:
		return true
	}
	queue := m.EventSourceARN[strings.LastIndexByte(m.EventSourceARN, ':')+1:]
	extend, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := c.Queues.Extend(extend, queue, verdict.Again, m.ReceiptHandle); err != nil {
		c.Log.Warn("message not deferred", "run", run.Run, "error", err)
	}
	return false
}
