package sqs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"golang.org/x/sync/errgroup"

	"millrace/shared/platform/queue"
)

// id returns the Id of the entry at an index of a batch.
func id(index int) *string { return aws.String(strconv.Itoa(index)) }

// indexOf returns the index of the entry with an Id, in a batch of n.
func indexOf(id string, n int) (int, bool) {
	i, err := strconv.Atoi(id)
	return i, err == nil && i >= 0 && i < n
}

func entryErrors(failed []types.BatchResultErrorEntry) []*entryError {
	out := make([]*entryError, len(failed))
	for i, f := range failed {
		out[i] = &entryError{at: aws.ToString(f.Id), code: aws.ToString(f.Code), message: aws.ToString(f.Message), ours: f.SenderFault}
	}
	return out
}

// Delete removes messages and then the objects that hold their bodies.
func (q *Queues) Delete(ctx context.Context, name string, receipts ...string) error {
	client, url, err := q.open(ctx, name)
	if err != nil {
		return err
	}
	return q.settle(ctx, "delete from", name, receipts, func(part []string) error {
		rejected, err := resend(ctx, q.backoff, part, func(part []string) ([]*entryError, error) {
			in := &sqs.DeleteMessageBatchInput{QueueUrl: url, Entries: make([]types.DeleteMessageBatchRequestEntry, len(part))}
			for i, receipt := range part {
				in.Entries[i] = types.DeleteMessageBatchRequestEntry{Id: id(i), ReceiptHandle: handle(receipt)}
			}
			out, err := client.DeleteMessageBatch(ctx, in)
			if err != nil {
				return nil, err
			}
			return entryErrors(out.Failed), nil
		})
		if err != nil {
			return err
		}
		var keys []string
		for i, receipt := range part {
			if _, key, claimed := strings.Cut(receipt, receiptSeparator); claimed && rejected[i] == nil {
				keys = append(keys, key)
			}
		}
		q.discard(ctx, keys...)
		return join(rejected)
	})
}

// Extend changes the visibility time-outs of deliveries, in whole seconds,
// rounded up.
func (q *Queues) Extend(ctx context.Context, name string, d time.Duration, receipts ...string) error {
	client, url, err := q.open(ctx, name)
	if err != nil {
		return err
	}
	if err := queue.CheckExtend(d); err != nil {
		return err
	}
	return q.settle(ctx, "extend on", name, receipts, func(part []string) error {
		rejected, err := resend(ctx, q.backoff, part, func(part []string) ([]*entryError, error) {
			in := &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: url, Entries: make([]types.ChangeMessageVisibilityBatchRequestEntry, len(part))}
			for i, receipt := range part {
				in.Entries[i] = types.ChangeMessageVisibilityBatchRequestEntry{
					Id: id(i), ReceiptHandle: handle(receipt), VisibilityTimeout: seconds(d),
				}
			}
			out, err := client.ChangeMessageVisibilityBatch(ctx, in)
			if err != nil {
				return nil, err
			}
			return entryErrors(out.Failed), nil
		})
		if err != nil {
			return err
		}
		return join(rejected)
	})
}

// settle applies do to receipts in batches. It goes on after batches that fail,
// and returns their errors.
func (q *Queues) settle(ctx context.Context, op, name string, receipts []string, do func(part []string) error) error {
	if slices.Contains(receipts, "") { // SQS would reject the whole request
		return fmt.Errorf("sqs: %s %s: %w (empty)", op, name, queue.ErrReceipt)
	}
	errs := make([]error, (len(receipts)+queue.MaxBatch-1)/queue.MaxBatch)
	var group errgroup.Group
	group.SetLimit(requests)
	for i := range errs {
		part := receipts[i*queue.MaxBatch : min((i+1)*queue.MaxBatch, len(receipts))]
		group.Go(func() error {
			errs[i] = do(part)
			return nil
		})
	}
	_ = group.Wait()
	return q.wrap(op, name, errors.Join(errs...))
}

// join combines entryErrors into one error.
func join(rejected map[int]*entryError) error {
	if len(rejected) == 0 {
		return nil
	}
	errs := make([]error, 0, len(rejected))
	for _, r := range rejected {
		errs = append(errs, r)
	}
	return errors.Join(errs...)
}

// Depth returns the queue's approximate number of messages.
func (q *Queues) Depth(ctx context.Context, name string) (int, error) {
	counts, err := q.counts(ctx, name, types.QueueAttributeNameApproximateNumberOfMessages)
	if err != nil {
		return 0, err
	}
	return counts[0], nil
}

// Stats returns the queue's counts, which are approximate and lag by up to a
// minute. Oldest is 0: SQS reports the age only to CloudWatch.
func (q *Queues) Stats(ctx context.Context, name string) (queue.Stats, error) {
	counts, err := q.counts(ctx, name,
		types.QueueAttributeNameApproximateNumberOfMessages,
		types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		types.QueueAttributeNameApproximateNumberOfMessagesDelayed)
	if err != nil {
		return queue.Stats{}, err
	}
	return queue.Stats{Visible: counts[0], InFlight: counts[1], Delayed: counts[2]}, nil
}

// counts reads numeric attributes of a queue.
func (q *Queues) counts(ctx context.Context, name string, attributes ...types.QueueAttributeName) ([]int, error) {
	client, url, err := q.open(ctx, name)
	if err != nil {
		return nil, err
	}
	out, err := client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: url, AttributeNames: attributes})
	if err != nil {
		return nil, q.wrap("read attributes of", name, err)
	}
	counts := make([]int, len(attributes))
	for i, attribute := range attributes {
		if counts[i], err = strconv.Atoi(out.Attributes[string(attribute)]); err != nil {
			return nil, fmt.Errorf("sqs: attribute %s of %s: %w", attribute, name, err)
		}
	}
	return counts, nil
}
