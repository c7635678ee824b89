package triggers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"millrace/localstack/cloud/resources"
)

// deletePatience is how long deleting handled messages may take, also while the
// triggers are stopping.
const deletePatience = 5 * time.Second

// Deliver waits up to wait seconds for messages of a queue and passes them to
// the function in one event. It returns their number.
func (t *Triggers) Deliver(ctx context.Context, m resources.Mapping, wait int32) (int, error) {
	batch, err := t.receive(ctx, m, wait)
	if err != nil || len(batch) == 0 {
		return 0, err
	}
	return len(batch), t.handle(ctx, m, batch)
}

func (t *Triggers) receive(ctx context.Context, m resources.Mapping, wait int32) ([]types.Message, error) {
	url, err := t.url(ctx, m)
	if err != nil {
		return nil, err
	}
	got, err := t.SQS(m.Function).ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: url, MaxNumberOfMessages: int32(m.Batch), WaitTimeSeconds: wait,
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		MessageAttributeNames:       []string{"All"},
	})
	if err != nil {
		return nil, err
	}
	return got.Messages, nil
}

func (t *Triggers) url(ctx context.Context, m resources.Mapping) (*string, error) {
	out, err := t.SQS(m.Function).GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &m.Queue})
	if err != nil {
		return nil, err
	}
	return out.QueueUrl, nil
}

// handle passes messages to the function and deletes those that it does not
// report as failed.
func (t *Triggers) handle(ctx context.Context, m resources.Mapping, batch []types.Message) error {
	payload, err := t.event(m, batch)
	if err != nil {
		return err
	}
	answer, err := t.Invoke(ctx, m.Function, payload)
	if err != nil {
		return err
	}
	failed := map[string]bool{}
	if m.Partial {
		var res events.SQSEventResponse
		if err := json.Unmarshal(answer, &res); err != nil {
			return fmt.Errorf("%s answered %q: %w", m.Function, answer, err)
		}
		for _, f := range res.BatchItemFailures {
			failed[f.ItemIdentifier] = true
		}
	}
	return t.remove(ctx, m, batch, failed)
}

// remove deletes the messages that did not fail.
func (t *Triggers) remove(ctx context.Context, m resources.Mapping, batch []types.Message, failed map[string]bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deletePatience)
	defer cancel()
	url, err := t.url(ctx, m)
	if err != nil {
		return err
	}
	in := &sqs.DeleteMessageBatchInput{QueueUrl: url}
	for _, message := range batch {
		if !failed[*message.MessageId] {
			in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: message.MessageId, ReceiptHandle: message.ReceiptHandle})
		}
	}
	if len(in.Entries) == 0 {
		return nil
	}
	out, err := t.SQS(m.Function).DeleteMessageBatch(ctx, in)
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range out.Failed {
		errs = append(errs, fmt.Errorf("message %s was not deleted: %s", aws.ToString(f.Id), aws.ToString(f.Message)))
	}
	return errors.Join(errs...)
}

// event returns Lambda's event for messages.
func (t *Triggers) event(m resources.Mapping, batch []types.Message) ([]byte, error) {
	var e events.SQSEvent
	for _, message := range batch {
		record := events.SQSMessage{
			MessageId: *message.MessageId, ReceiptHandle: *message.ReceiptHandle, Body: *message.Body, Md5OfBody: aws.ToString(message.MD5OfBody),
			Attributes: message.Attributes, MessageAttributes: map[string]events.SQSMessageAttribute{},
			EventSource: "aws:sqs", EventSourceARN: "arn:aws:sqs:" + t.Region + ":" + t.AccountID + ":" + m.Queue, AWSRegion: t.Region,
		}
		for key, a := range message.MessageAttributes {
			record.MessageAttributes[key] = events.SQSMessageAttribute{StringValue: a.StringValue, BinaryValue: a.BinaryValue, DataType: aws.ToString(a.DataType)}
		}
		e.Records = append(e.Records, record)
	}
	return json.Marshal(e)
}
