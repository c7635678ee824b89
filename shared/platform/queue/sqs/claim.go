package sqs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"golang.org/x/sync/errgroup"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/queue"
)

const (
	// claimAttribute is the message attribute that names the object of a body. It
	// is an attribute because a user could write a body that looks like a pointer.
	claimAttribute = "millrace-claim"
	// ownerless replaces the workspace in the object keys of messages without a
	// group.
	ownerless = "_"
	// receiptSeparator separates SQS's receipt from the object key. Neither
	// contains it.
	receiptSeparator = "\n"
)

// handle returns SQS's part of a receipt.
func handle(receipt string) *string {
	own, _, _ := strings.Cut(receipt, receiptSeparator)
	return &own
}

// allowed reports whether SQS accepts the body. It rejects two code points that
// the port allows.
func allowed(body []byte) bool {
	return !bytes.Contains(body, []byte("\ufffe")) && !bytes.Contains(body, []byte("\uffff"))
}

// claims reports whether the body is stored in the object store.
func (q *Queues) claims(msg queue.Message) bool {
	return q.cfg.Objects != nil && (len(msg.Body) > q.cfg.Inline || !allowed(msg.Body))
}

// size returns a message's size as SQS counts it. For a body in the object
// store it is an upper bound for the pointer.
func (q *Queues) size(msg queue.Message) int {
	if q.claims(msg) {
		return 2*blob.MaxKeyBytes + 128
	}
	return len(msg.Body)
}

// pointer returns the attributes of a message whose body is under key, and a
// body for human readers.
func pointer(key string) (*string, map[string]types.MessageAttributeValue) {
	body, _ := json.Marshal(map[string]string{"body_in": key}) // a string always marshals
	return aws.String(string(body)), map[string]types.MessageAttributeValue{
		claimAttribute: {DataType: aws.String("String"), StringValue: &key},
	}
}

func owner(group string) string {
	if group == "" {
		return ownerless
	}
	return group
}

// keep stores the body in the object store.
func (q *Queues) keep(ctx context.Context, msg queue.Message) (key string, err error) {
	key, err = blob.Key(owner(msg.Group), queue.BodyFolder, ids.New(q.cfg.Clock.Now()))
	if err != nil {
		return "", fmt.Errorf("%w: body of %d bytes in a group that cannot be a folder: %w", queue.ErrLimit, len(msg.Body), err)
	}
	_, err = blob.PutBytes(ctx, q.cfg.Objects, key, msg.Body, blob.PutOptions{ContentType: "application/json"})
	return key, err
}

// fetch reads a body from the object store. The key must be in the group's own
// folder, so that a message cannot refer to another workspace.
func (q *Queues) fetch(ctx context.Context, group, key string) ([]byte, error) {
	if !strings.HasPrefix(key, owner(group)+"/"+queue.BodyFolder+"/") {
		return nil, fmt.Errorf("body of group %q is said to be in %q", group, key)
	}
	if q.cfg.Objects == nil {
		return nil, fmt.Errorf("body in %s: %w", key, blob.ErrNotConfigured)
	}
	body, _, err := blob.GetBytes(ctx, q.cfg.Objects, key, queue.MaxBody)
	return body, err
}

func gone(err error) bool { return errors.Is(err, blob.ErrNotFound) }

// discard removes objects. Calls do not fail if it does: a leftover object is
// harmless and costs little.
func (q *Queues) discard(ctx context.Context, keys ...string) {
	if len(keys) == 0 || q.cfg.Objects == nil {
		return
	}
	if err := q.cfg.Objects.Delete(context.WithoutCancel(ctx), keys...); err != nil {
		q.cfg.Log.WarnContext(ctx, "bodies of messages were not removed", "error", err)
	}
}

// Handler handles a batch of messages as Lambda passes them.
type Handler = func(ctx context.Context, batch events.SQSEvent) (events.SQSEventResponse, error)

// Messages wraps the handler of a Lambda function whose event source is one of
// these queues. next sees every body in its message. A body that cannot be
// fetched fails only its own message; a missing body means that the message was
// handled before. Messages removes the objects of messages that next has
// handled; Lambda deletes the messages.
func (q *Queues) Messages(next Handler) Handler {
	return func(ctx context.Context, batch events.SQSEvent) (events.SQSEventResponse, error) {
		keys := make(map[string]string) // by message id
		errs := make([]error, len(batch.Records))
		records := make([]events.SQSMessage, len(batch.Records))
		copy(records, batch.Records)
		var group errgroup.Group
		group.SetLimit(requests)
		for i, record := range records {
			attribute, claimed := record.MessageAttributes[claimAttribute]
			if !claimed {
				continue
			}
			key := aws.ToString(attribute.StringValue)
			keys[record.MessageId] = key
			group.Go(func() error {
				body, err := q.fetch(ctx, record.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)], key)
				records[i].Body, errs[i] = string(body), err
				return nil
			})
		}
		_ = group.Wait()
		if len(keys) == 0 {
			return next(ctx, batch)
		}
		var ready []events.SQSMessage
		var failed []events.SQSBatchItemFailure
		for i, err := range errs {
			switch {
			case err == nil:
				ready = append(ready, records[i])
			case gone(err):
				delete(keys, records[i].MessageId)
			default:
				q.cfg.Log.WarnContext(ctx, "the body of a message could not be fetched", "message", records[i].MessageId, "error", err)
				failed = append(failed, events.SQSBatchItemFailure{ItemIdentifier: records[i].MessageId})
			}
		}
		var response events.SQSEventResponse
		if len(ready) > 0 {
			var err error
			if response, err = next(ctx, events.SQSEvent{Records: ready}); err != nil {
				return response, err
			}
		}
		response.BatchItemFailures = append(response.BatchItemFailures, failed...)
		q.release(ctx, batch, keys, response)
		return response, nil
	}
}

// release removes the objects of messages that will not be delivered again.
func (q *Queues) release(ctx context.Context, batch events.SQSEvent, keys map[string]string, response events.SQSEventResponse) {
	sent := make(map[string]bool, len(batch.Records))
	for _, record := range batch.Records {
		sent[record.MessageId] = true
	}
	for _, failure := range response.BatchItemFailures {
		if !sent[failure.ItemIdentifier] { // Lambda then treats all as failed
			return
		}
		delete(keys, failure.ItemIdentifier)
	}
	var done []string
	for _, key := range keys {
		done = append(done, key)
	}
	q.discard(ctx, done...)
}
