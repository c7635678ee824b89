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
		c.Log.ErrorContext(ctx, "message is not readable", "message", m.MessageId, "error", err)
		return false
	}
	receives, _ := strconv.Atoi(m.Attributes["ApproximateReceiveCount"])
	queue := m.EventSourceARN[strings.LastIndexByte(m.EventSourceARN, ':')+1:]
	began := c.Clock.Now()
	s := c.session(run.Org, run.Run)
	s.queue = queue
	s.waited(m, run, receives, began)
	ctx = s.about(ctx, run.Trace)
	verdict, err := s.handle(ctx, run, receives)
	if ctx.Err() == nil {
		s.handled(ctx, run, receives, c.Clock.Now().Sub(began), err)
	}
	switch {
	case err != nil:
		verdict.Again = min(firstRetry<<max(receives-1, 0), mostRetry) //guard:message/failed return true
	case verdict.Again == 0:
		return true
	}
	extend, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := c.Queues.Extend(extend, queue, verdict.Again, m.ReceiptHandle); err != nil {
		c.Log.WarnContext(ctx, "message not deferred", "error", err)
	}
	return false
}
