package worker_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing/synctest"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"

	"millrace/events"
	"millrace/localstack/proof/faults"
	"millrace/shared/platform/queue"
	"millrace/shared/run/worker"
)

// reconcileSlots is how many reconciliations a process does at a time. They have
// workers of their own, so that tasks do not delay them.
const reconcileSlots = 4

// receive receives messages from a queue for a process and starts to handle
// them. It returns false if there are none.
func (s *sim) receive() bool {
	p := s.alive()
	if p == nil {
		return false
	}
	if s.forgets && s.rng.IntN(20) == 0 {
		p.c = worker.New(p.config)
	}
	names := []string{events.Tasks("nano"), events.Runs}
	first := s.rng.IntN(2)
	return s.receiveFrom(p, names[first]) || s.receiveFrom(p, names[1-first])
}

func (s *sim) receiveFrom(p *proc, name string) bool {
	busy, free := &p.tasks, s.slots
	if name == events.Runs {
		busy, free = &p.reconciliations, reconcileSlots
	}
	free -= int(busy.Load())
	if free <= 0 {
		return false
	}
	most := 1 + s.rng.IntN(max(s.batch, 3))
	if s.batch <= 1 {
		most = min(most, free)
	}
	got, err := s.queues.Receive(s.ctx, name, most, 0)
	if err != nil || len(got) == 0 {
		return false
	}
	each := 1 // messages of one invocation
	if s.batch > 1 {
		each = len(got)
	}
	for batch := range slices.Chunk(got, each) {
		busy.Add(1)
		s.handled++
		ctx, c := faults.As(p.ctx, fmt.Sprintf("message %09d", s.handled)), p.c
		go func() {
			defer busy.Add(-1)
			s.handle(ctx, p, c, name, batch)
		}()
		synctest.Wait() // one after the other, so that their order is not random
	}
	return true
}

// handle handles messages as one invocation of a function.
func (s *sim) handle(ctx context.Context, p *proc, c *worker.Worker, name string, got []queue.Delivery) {
	if s.lambda {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, messageTime)
		defer cancel()
	}
	var in lambda.SQSEvent
	for _, m := range got {
		in.Records = append(in.Records, lambda.SQSMessage{
			MessageId: m.ID, ReceiptHandle: m.Receipt, Body: string(m.Body), EventSourceARN: "arn:aws:sqs:x:0:" + name,
			Attributes: map[string]string{
				"ApproximateReceiveCount": strconv.Itoa(m.Receives), "SentTimestamp": strconv.FormatInt(m.Sent.UnixMilli(), 10),
			},
		})
	}
	out, err := c.Messages(ctx, in)
	until, limited := ctx.Deadline()
	if limited && time.Until(until) < worker.WriteMargin && p.ctx.Err() == nil {
		s.mu.Lock()
		p.expired = append(p.expired, time.Now())
		s.mu.Unlock()
	}
	if err != nil {
		return
	}
	failed := map[string]bool{}
	for _, f := range out.BatchItemFailures {
		failed[f.ItemIdentifier] = true
	}
	for _, m := range got {
		if !failed[m.ID] {
			_ = p.queues.Delete(ctx, name, m.Receipt)
		}
	}
}
