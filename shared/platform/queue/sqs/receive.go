package sqs

import (
	"context"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"golang.org/x/sync/errgroup"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
)

// patience is how long a request may take beyond the requested wait.
const patience = 15 * time.Second

// Receive polls; wait is rounded up to whole seconds. If ctx ends first, the
// poll continues in the background and returns its messages to the queue,
// because SQS would otherwise deliver messages to a closed connection.
func (q *Queues) Receive(ctx context.Context, name string, max int, wait time.Duration) ([]queue.Delivery, error) {
	client, url, err := q.open(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := queue.CheckReceive(max, wait); err != nil {
		return nil, err
	}
	type answer struct {
		messages []types.Message
		err      error
	}
	answers := make(chan answer)
	go func() {
		poll, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait+patience)
		defer cancel()
		var a answer
		out, err := client.ReceiveMessage(poll, &sqs.ReceiveMessageInput{
			QueueUrl: url, MaxNumberOfMessages: int32(max), WaitTimeSeconds: seconds(wait),
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{
				types.MessageSystemAttributeNameApproximateReceiveCount,
				types.MessageSystemAttributeNameSentTimestamp,
				types.MessageSystemAttributeNameMessageGroupId,
			},
			MessageAttributeNames: []string{claimAttribute},
		})
		if a.err = err; err == nil {
			a.messages = out.Messages
		}
		select {
		case answers <- a:
		case <-ctx.Done():
			q.giveBack(poll, name, a.messages)
		}
	}()
	select {
	case a := <-answers:
		if a.err != nil {
			return nil, q.wrap("receive from", name, a.err)
		}
		return q.deliveries(ctx, name, a.messages)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// giveBack makes messages visible again that no caller waits for. If it fails,
// they become visible when their time-out ends.
func (q *Queues) giveBack(ctx context.Context, name string, messages []types.Message) {
	receipts := make([]string, len(messages))
	for i, m := range messages {
		receipts[i] = aws.ToString(m.ReceiptHandle)
	}
	if err := q.Extend(ctx, name, 0, receipts...); err != nil {
		q.cfg.Log.WarnContext(ctx, "messages received too late were not returned", "queue", name, "error", err)
	}
}

// deliveries converts messages and fetches bodies from the object store. A
// message whose body cannot be fetched is delivered again after its time-out;
// the error is returned only if no other message is left.
func (q *Queues) deliveries(ctx context.Context, name string, messages []types.Message) ([]queue.Delivery, error) {
	if len(messages) == 0 {
		return nil, nil
	}
	all := make([]queue.Delivery, len(messages))
	errs := make([]error, len(messages))
	var group errgroup.Group
	for i, m := range messages {
		all[i] = delivery(m)
		attribute, claimed := m.MessageAttributes[claimAttribute]
		if !claimed {
			all[i].Body = []byte(aws.ToString(m.Body))
			continue
		}
		group.Go(func() error {
			key := aws.ToString(attribute.StringValue)
			all[i].Receipt += receiptSeparator + key
			all[i].Body, errs[i] = q.fetch(ctx, all[i].Group, key)
			return nil
		})
	}
	_ = group.Wait()
	if err := ctx.Err(); err != nil {
		q.giveBack(context.WithoutCancel(ctx), name, messages)
		return nil, err
	}
	var kept []queue.Delivery
	var failed error
	for i, err := range errs {
		switch {
		case err == nil:
			kept = append(kept, all[i])
		case gone(err): // a late duplicate of a deleted message
			if err := q.Delete(ctx, name, all[i].Receipt); err != nil {
				failed = err
			}
		default:
			failed = q.wrap("fetch a body of", name, err)
		}
	}
	if len(kept) == 0 {
		return nil, failed
	}
	if failed != nil { // the error is not returned
		q.cfg.Log.WarnContext(ctx, "messages were held back", "queue", name, "error", failed)
	}
	return kept, nil
}

func delivery(m types.Message) queue.Delivery {
	system := func(name types.MessageSystemAttributeName) string { return m.Attributes[string(name)] }
	receives, err := strconv.Atoi(system(types.MessageSystemAttributeNameApproximateReceiveCount))
	if err != nil {
		receives = 1
	}
	sent, _ := strconv.ParseInt(system(types.MessageSystemAttributeNameSentTimestamp), 10, 64)
	return queue.Delivery{
		ID: aws.ToString(m.MessageId), Receipt: aws.ToString(m.ReceiptHandle),
		Group:    system(types.MessageSystemAttributeNameMessageGroupId),
		Receives: receives, Sent: clock.Millis(sent).Time(),
	}
}
