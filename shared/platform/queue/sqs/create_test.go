package sqs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/emulators"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/queue/sqs"
)

func TestCreateQueues(t *testing.T) {
	t.Parallel()
	client := awssqs.NewFromConfig(emulators.SQS(t).Config())
	prefix := ids.Token(9) + "-"
	attributes := func(name string) map[string]string {
		url, err := client.GetQueueUrl(t.Context(), &awssqs.GetQueueUrlInput{QueueName: aws.String(prefix + name)})
		require.NoError(t, err)
		out, err := client.GetQueueAttributes(t.Context(), &awssqs.GetQueueAttributesInput{
			QueueUrl: url.QueueUrl, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
		})
		require.NoError(t, err)
		return out.Attributes
	}
	for _, visibility := range []time.Duration{time.Minute, 90 * time.Second, 90 * time.Second} { // created, changed, unchanged
		require.NoError(t, sqs.CreateQueues(t.Context(), client, prefix, []queue.Definition{{Name: work, Visibility: visibility}}))
		made, dead := attributes(work), attributes(queue.Dead(work))
		for _, a := range []map[string]string{made, dead} {
			assert.Equal(t, visibility, seconds(t, a["VisibilityTimeout"]))
			assert.Equal(t, "1048576", a["MaximumMessageSize"])
		}
		assert.Equal(t, 4*24*time.Hour, seconds(t, made["MessageRetentionPeriod"]))
		assert.Equal(t, 14*24*time.Hour, seconds(t, dead["MessageRetentionPeriod"]))
		assert.JSONEq(t, `{"deadLetterTargetArn":"`+dead["QueueArn"]+`","maxReceiveCount":10}`, made["RedrivePolicy"])
		assert.Empty(t, dead["RedrivePolicy"])
	}
}

func seconds(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s + "s")
	require.NoError(t, err)
	return d
}

func TestCreateQueuesRejectsInvalid(t *testing.T) {
	t.Parallel()
	client := awssqs.NewFromConfig(emulators.SQS(t).Config())
	good := queue.Definition{Name: work, Visibility: time.Second}
	for prefix, defs := range map[string][]queue.Definition{
		"":                      {good, {Name: "a.b", Visibility: time.Second}},
		strings.Repeat("p", 72): {good},
	} {
		require.ErrorIs(t, sqs.CreateQueues(t.Context(), client, prefix, defs), queue.ErrLimit)
	}
}
