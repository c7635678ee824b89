package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"millrace/shared/fn"
)

// Feed plays the event source mappings of these queues until the test ends.
func (c *Cloud) Feed(names ...string) {
	ctx, stop := context.WithCancel(c.running)
	var feeds sync.WaitGroup
	for _, name := range names {
		feeds.Go(func() {
			for ctx.Err() == nil {
				if _, err := c.Deliver(ctx, name, 1); err != nil && ctx.Err() == nil {
					c.t.Errorf("feed %s: %v", name, err)
					return
				}
			}
		})
	}
	c.t.Cleanup(func() { stop(); feeds.Wait() })
}

// Deliver waits up to some seconds for messages of a queue, hands them to the
// queue's function as one event, and deletes those that it does not report as
// failed. It returns how many it handed over.
func (c *Cloud) Deliver(ctx context.Context, name string, wait int32) (int, error) {
	spec, batch, err := c.fedBy(name)
	if err != nil {
		return 0, err
	}
	url, err := c.SQS.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(c.Prefix + name)})
	if err != nil {
		return 0, err
	}
	got, err := c.SQS.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: url.QueueUrl, MaxNumberOfMessages: int32(batch), WaitTimeSeconds: wait,
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		MessageAttributeNames:       []string{"All"},
	})
	if err != nil || len(got.Messages) == 0 {
		return 0, err
	}
	payload, err := json.Marshal(c.event(name, got.Messages))
	if err != nil {
		return 0, err
	}
	answer, err := c.Invoke(ctx, spec.Name, payload)
	if err != nil {
		return 0, err
	}
	data, err := answer.Bytes()
	if err != nil {
		return 0, err
	}
	var res events.SQSEventResponse
	if err := json.Unmarshal(data, &res); err != nil {
		return 0, fmt.Errorf("%s answered %q: %w", spec.Name, data, err)
	}
	failed := map[string]bool{}
	for _, f := range res.BatchItemFailures {
		failed[f.ItemIdentifier] = true
	}
	for _, m := range got.Messages {
		if failed[*m.MessageId] {
			continue
		}
		if _, err := c.SQS.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: url.QueueUrl, ReceiptHandle: m.ReceiptHandle}); err != nil {
			return 0, err
		}
	}
	return len(got.Messages), nil
}

// fedBy is the function that a queue feeds.
func (c *Cloud) fedBy(name string) (fn.Spec, int, error) {
	for _, spec := range c.specs {
		for _, q := range spec.Trigger.Queues {
			if q.Queue == name {
				return spec, q.Batch, nil
			}
		}
	}
	return fn.Spec{}, 0, fmt.Errorf("no function takes messages of %s", name)
}

// event is what Lambda makes of messages.
func (c *Cloud) event(name string, messages []types.Message) events.SQSEvent {
	var e events.SQSEvent
	for _, m := range messages {
		record := events.SQSMessage{
			MessageId: *m.MessageId, ReceiptHandle: *m.ReceiptHandle, Body: *m.Body, Md5OfBody: aws.ToString(m.MD5OfBody),
			Attributes: m.Attributes, MessageAttributes: map[string]events.SQSMessageAttribute{},
			EventSource: "aws:sqs", EventSourceARN: strings.Join([]string{"arn:aws:sqs:us-east-1:000000000000", c.Prefix + name}, ":"), AWSRegion: "us-east-1",
		}
		for key, a := range m.MessageAttributes {
			record.MessageAttributes[key] = events.SQSMessageAttribute{StringValue: a.StringValue, BinaryValue: a.BinaryValue, DataType: aws.ToString(a.DataType)}
		}
		e.Records = append(e.Records, record)
	}
	return e
}
