package eventbridge_test

import (
	"context"
	"encoding/json"
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
	"millrace/shared/platform/bus"
	"millrace/shared/platform/bus/bustest"
	"millrace/shared/platform/bus/eventbridge"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/queue/sqs"
)

// load returns the emulator's configuration.
func load(base aws.Config) func(context.Context) (aws.Config, error) {
	return func(context.Context) (aws.Config, error) { return base, nil }
}

// TestConformance publishes to its own bus, whose only rule targets a queue.
func TestConformance(t *testing.T) {
	t.Parallel()
	base, queues := emulators.EventBridge(t).Config(), emulators.SQS(t).Config()
	bustest.Exercise(t, func(t *testing.T, detailTypes []string) (bus.Bus, bustest.Receive) {
		name := ids.Token(9)
		qs := target(t, base, queues, name, detailTypes)
		return eventbridge.New(eventbridge.Config{Bus: name, AWS: load(base)}), func(ctx context.Context, n int) []bus.Envelope {
			var got []bus.Envelope
			for len(got) < n && ctx.Err() == nil {
				ds, _ := qs.Receive(ctx, "events", min(n-len(got), queue.MaxBatch), time.Second)
				for _, d := range ds {
					e, err := bus.DecodeEnvelope(d.Body)
					assert.NoError(t, err)
					got = append(got, e)
					assert.NoError(t, qs.Delete(t.Context(), "events", d.Receipt))
				}
			}
			return got
		}
	})
}

// target creates the bus, the rule and the queue.
func target(t *testing.T, base, queues aws.Config, name string, detailTypes []string) queue.Queues {
	t.Helper()
	prefix := name + "-"
	client := awssqs.NewFromConfig(queues)
	require.NoError(t, sqs.CreateQueues(t.Context(), client, prefix, []queue.Definition{{Name: "events", Visibility: time.Minute}}))
	url, err := client.GetQueueUrl(t.Context(), &awssqs.GetQueueUrlInput{QueueName: aws.String(prefix + "events")})
	require.NoError(t, err)
	out, err := client.GetQueueAttributes(t.Context(), &awssqs.GetQueueAttributesInput{
		QueueUrl: url.QueueUrl, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameQueueArn},
	})
	require.NoError(t, err)

	events := eb.NewFromConfig(base)
	_, err = events.CreateEventBus(t.Context(), &eb.CreateEventBusInput{Name: &name})
	require.NoError(t, err)
	pattern, err := json.Marshal(map[string][]string{"source": {bus.Source}, "detail-type": detailTypes})
	require.NoError(t, err)
	_, err = events.PutRule(t.Context(), &eb.PutRuleInput{
		Name: aws.String("rule"), EventBusName: &name, EventPattern: aws.String(string(pattern)), State: types.RuleStateEnabled,
	})
	require.NoError(t, err)
	put, err := events.PutTargets(t.Context(), &eb.PutTargetsInput{
		Rule: aws.String("rule"), EventBusName: &name,
		Targets: []types.Target{{
			Id: aws.String("queue"), Arn: aws.String(out.Attributes["QueueArn"]),
			// The whole event, which is what a target receives without a transformer.
			// Without one, moto omits the account and takes 0.3 s for each event.
			InputTransformer: &types.InputTransformer{
				InputPathsMap: map[string]string{"id": "$.id"}, InputTemplate: aws.String("<aws.events.event.json>"),
			},
		}},
	})
	require.NoError(t, err)
	require.Zero(t, put.FailedEntryCount)
	return sqs.New(sqs.Config{Prefix: prefix, AWS: load(queues)})
}
