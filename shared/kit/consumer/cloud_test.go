package consumer_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	eb "github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/emulators"
	"millrace/shared/kit/consumer"
	"millrace/shared/platform/bus"
	"millrace/shared/platform/bus/eventbridge"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/queue/sqs"
)

// cloud returns a world of AWS services: a bus, and a rule that feeds a queue.
func cloud(t *testing.T) *world {
	base, queues, name := emulators.EventBridge(t).Config(), emulators.SQS(t).Config(), ids.Token(9)
	load := func(c aws.Config) func(context.Context) (aws.Config, error) {
		return func(context.Context) (aws.Config, error) { return c, nil }
	}
	client := awssqs.NewFromConfig(queues)
	require.NoError(t, sqs.CreateQueues(t.Context(), client, name+"-", []queue.Definition{{Name: from, Visibility: time.Minute}}))
	url, err := client.GetQueueUrl(t.Context(), &awssqs.GetQueueUrlInput{QueueName: aws.String(name + "-" + from)})
	require.NoError(t, err)
	out, err := client.GetQueueAttributes(t.Context(), &awssqs.GetQueueAttributesInput{
		QueueUrl: url.QueueUrl, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameQueueArn},
	})
	require.NoError(t, err)
	events := eb.NewFromConfig(base)
	_, err = events.CreateEventBus(t.Context(), &eb.CreateEventBusInput{Name: &name})
	require.NoError(t, err)
	pattern, err := json.Marshal(map[string][]string{"source": {bus.Source}, "detail-type": {made}})
	require.NoError(t, err)
	_, err = events.PutRule(t.Context(), &eb.PutRuleInput{
		Name: aws.String("rule"), EventBusName: &name, EventPattern: aws.String(string(pattern)), State: types.RuleStateEnabled,
	})
	require.NoError(t, err)
	put, err := events.PutTargets(t.Context(), &eb.PutTargetsInput{
		Rule: aws.String("rule"), EventBusName: &name, Targets: []types.Target{{Id: aws.String("queue"), Arn: aws.String(out.Attributes["QueueArn"])}},
	})
	require.NoError(t, err)
	require.Zero(t, put.FailedEntryCount)
	return &world{
		t: t, table: emulators.Table(t), calls: map[string]int{}, queues: sqs.New(sqs.Config{Prefix: name + "-", AWS: load(queues)}),
		bus: eventbridge.New(eventbridge.Config{Bus: name, AWS: load(base)}),
	}
}

// TestOnAWS handles events delivered by EventBridge, SQS and DynamoDB: one
// published twice, one that fails at first, and a message that is not an event.
func TestOnAWS(t *testing.T) {
	t.Parallel()
	w := cloud(t)
	c := w.process(w.table, func(ctx context.Context, d *consumer.Delivery, detail thing) error {
		_ = w.count(ctx, d, detail)
		switch {
		case detail.Name == "failing" && w.called("failing") < 2:
			return errors.New("not now")
		case detail.Name == "marked":
			return w.table.Transact(ctx, d.Handled())
		}
		return nil
	})
	w.publish(event("twice"), event("failing"), event("twice"), event("marked"))
	require.NoError(t, w.queues.Send(t.Context(), from, queue.Message{Body: []byte(`{"kind":"look"}`), Group: org}))
	seen := map[string]bool{}
	var unread []string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline) && (len(seen) < 5 || w.called("failing") < 2); {
		batch := w.receive(time.Second)
		for _, m := range batch.Records {
			seen[m.MessageId] = true
		}
		unread = append(unread, w.deliver(c, batch)...)
	}
	assert.Equal(t, map[string]int{"twice": 1, "failing": 2, "marked": 1}, w.calls)
	assert.GreaterOrEqual(t, len(unread), 2, "the failing one, and what is no event")
	w.publish(event("failing"), event("marked"))
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline) && len(seen) < 7; {
		batch := w.receive(time.Second)
		for _, m := range batch.Records {
			seen[m.MessageId] = true
		}
		w.deliver(c, batch)
	}
	assert.Len(t, seen, 7)
	assert.Equal(t, map[string]int{"twice": 1, "failing": 2, "marked": 1}, w.calls)
}
