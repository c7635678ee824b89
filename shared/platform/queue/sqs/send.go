package sqs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"golang.org/x/sync/errgroup"

	"millrace/shared/platform/queue"
)

// Send sends any number of messages. Delays are rounded up to whole seconds.
func (q *Queues) Send(ctx context.Context, name string, msgs ...queue.Message) error {
	client, url, err := q.open(ctx, name)
	if err != nil {
		return err
	}
	for i := range msgs {
		err := msgs[i].Check()
		if err == nil && q.cfg.Objects == nil && !allowed(msgs[i].Body) {
			err = fmt.Errorf("%w: U+FFFE or U+FFFF in the body", queue.ErrLimit)
		}
		if err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(requests)
	for part := range q.batches(msgs) {
		group.Go(func() error { return q.sendBatch(ctx, client, url, part) })
	}
	return q.wrap("send to", name, group.Wait())
}

// batches splits messages into requests of at most 10 messages and MaxBody
// bytes.
func (q *Queues) batches(msgs []queue.Message) func(yield func([]queue.Message) bool) {
	return func(yield func([]queue.Message) bool) {
		first, size := 0, 0
		for i := range msgs {
			n := q.size(msgs[i])
			if i-first == queue.MaxBatch || i > first && size+n > queue.MaxBody {
				if !yield(msgs[first:i]) {
					return
				}
				first, size = i, 0
			}
			size += n
		}
		if first < len(msgs) {
			yield(msgs[first:])
		}
	}
}

func (q *Queues) sendBatch(ctx context.Context, client *sqs.Client, url *string, msgs []queue.Message) error {
	entries := make([]types.SendMessageBatchRequestEntry, len(msgs))
	keys := make([]string, len(msgs)) // of bodies in the object store
	for i, msg := range msgs {
		entries[i] = types.SendMessageBatchRequestEntry{DelaySeconds: seconds(msg.Delay)}
		if msg.Group != "" {
			entries[i].MessageGroupId = aws.String(msg.Group)
		}
		if !q.claims(msg) {
			entries[i].MessageBody = aws.String(string(msg.Body))
			continue
		}
		key, err := q.keep(ctx, msg)
		if err != nil {
			q.discard(ctx, slices.DeleteFunc(keys, empty)...)
			return err
		}
		keys[i] = key
		entries[i].MessageBody, entries[i].MessageAttributes = pointer(key)
	}
	rejected, err := resend(ctx, q.backoff, entries, func(entries []types.SendMessageBatchRequestEntry) ([]*entryError, error) {
		for i := range entries {
			entries[i].Id = id(i)
		}
		out, err := client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: url, Entries: entries})
		if err != nil {
			return nil, err
		}
		return entryErrors(out.Failed), nil
	})
	// Messages of a failed request may have been accepted, so their objects stay.
	// Rejected entries were not accepted.
	var orphans []string
	errs := []error{err}
	for i, r := range rejected {
		errs = append(errs, r)
		if keys[i] != "" {
			orphans = append(orphans, keys[i])
		}
	}
	q.discard(ctx, orphans...)
	return errors.Join(errs...)
}

func empty(s string) bool { return s == "" }
