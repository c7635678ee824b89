package sqs_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/emulators"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/blob/s3"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/queue/sqs"
)

const (
	work = "work"
	hold = 5 * time.Minute
	org  = "org_1"
)

// claims are queues whose bodies over 100 bytes are stored in a bucket.
type claims struct {
	*sqs.Queues
	store  blob.Store
	client *awssqs.Client
	url    *string
}

func newClaims(t *testing.T, change func(*sqs.Config)) *claims {
	t.Helper()
	base := emulators.SQS(t).Config()
	prefix := newPrefix(t, base, queue.Definition{Name: work, Visibility: hold})
	client := awssqs.NewFromConfig(base)
	out, err := client.GetQueueUrl(t.Context(), &awssqs.GetQueueUrlInput{QueueName: aws.String(prefix + work)})
	require.NoError(t, err)
	c := &claims{store: newStore(t), client: client, url: out.QueueUrl}
	cfg := sqs.Config{Prefix: prefix, AWS: load(base), Objects: c.store, Inline: 100}
	if change != nil {
		change(&cfg)
	}
	c.Queues = sqs.New(cfg)
	return c
}

func newStore(t *testing.T) blob.Store {
	t.Helper()
	at := emulators.S3(t)
	bucket := strings.ToLower("b" + ids.New(time.Now()))
	client := awss3.NewFromConfig(at.Config(), func(o *awss3.Options) { o.UsePathStyle = true })
	_, err := client.CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: &bucket})
	require.NoError(t, err)
	return s3.New(s3.Config{Bucket: bucket, Endpoint: at.URL, Region: "us-east-1", AccessKey: "test", SecretKey: "test", PathStyle: true})
}

// kept lists the object keys of a workspace's messages.
func (c *claims) kept(t *testing.T, group string) []string {
	t.Helper()
	objects, _, err := c.store.List(t.Context(), group+"/messages/", "", 0)
	require.NoError(t, err)
	keys := make([]string, len(objects))
	for i, o := range objects {
		keys[i] = o.Key
	}
	return keys
}

func (c *claims) next(t *testing.T) queue.Delivery {
	t.Helper()
	ds, err := c.Receive(t.Context(), work, 1, 5*time.Second)
	require.NoError(t, err)
	require.Len(t, ds, 1)
	return ds[0]
}

// raw receives messages as a Lambda function does.
func (c *claims) raw(t *testing.T, n int) events.SQSEvent {
	t.Helper()
	var batch events.SQSEvent
	out, err := c.client.ReceiveMessage(t.Context(), &awssqs.ReceiveMessageInput{
		QueueUrl: c.url, MaxNumberOfMessages: int32(n), MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	})
	require.NoError(t, err)
	require.Len(t, out.Messages, n)
	for _, m := range out.Messages {
		record := events.SQSMessage{
			MessageId: *m.MessageId, ReceiptHandle: *m.ReceiptHandle, Body: *m.Body, Attributes: m.Attributes,
			MessageAttributes: make(map[string]events.SQSMessageAttribute),
		}
		for name, value := range m.MessageAttributes {
			record.MessageAttributes[name] = events.SQSMessageAttribute{DataType: *value.DataType, StringValue: value.StringValue}
		}
		batch.Records = append(batch.Records, record)
	}
	return batch
}

func large(n int) []byte { return bytes.Repeat([]byte{'1'}, n) }

func TestClaimCheck(t *testing.T) {
	t.Parallel()
	c := newClaims(t, nil)
	body := large(queue.MaxBody)
	require.NoError(t, c.Send(t.Context(), work, queue.Message{Body: body, Group: org}))
	assert.Len(t, c.kept(t, org), 1)

	d := c.next(t)
	assert.Equal(t, org, d.Group)
	assert.True(t, bytes.Equal(body, d.Body), "the body is fetched")
	require.NoError(t, c.Extend(t.Context(), work, 0, d.Receipt), "the receipt serves all")
	d = c.next(t)
	assert.Equal(t, 2, d.Receives)
	require.NoError(t, c.Delete(t.Context(), work, d.Receipt))
	assert.Empty(t, c.kept(t, org), "the object goes with the message")
	require.NoError(t, c.Delete(t.Context(), work, d.Receipt), "again is fine")
}

func TestSmallBodiesStayInMessages(t *testing.T) {
	t.Parallel()
	c := newClaims(t, nil)
	require.NoError(t, c.Send(t.Context(), work, queue.Message{Body: large(100), Group: org}))
	assert.Empty(t, c.kept(t, org))
	assert.Equal(t, string(large(100)), string(c.next(t).Body))
}

// TestRejectedCodePointsGoToObjectStore covers two code points that JSON and
// the port allow and SQS does not.
func TestRejectedCodePointsGoToObjectStore(t *testing.T) {
	t.Parallel()
	c := newClaims(t, nil)
	for _, body := range []string{"\"\ufffe\"", "\"\uffff\""} {
		require.NoError(t, c.Send(t.Context(), work, queue.Message{Body: []byte(body)}))
		assert.Len(t, c.kept(t, "_"), 1, "a message without a group")
		d := c.next(t)
		assert.Equal(t, body, string(d.Body))
		require.NoError(t, c.Delete(t.Context(), work, d.Receipt))

		plain := newClaims(t, func(cfg *sqs.Config) { cfg.Objects = nil })
		require.ErrorIs(t, plain.Send(t.Context(), work, queue.Message{Body: []byte(body)}), queue.ErrLimit)
	}
}

func TestClaimOfInvalidGroupIsRejected(t *testing.T) {
	t.Parallel()
	c := newClaims(t, nil)
	for _, group := range []string{"a/b", "..", ".a"} {
		require.NoError(t, c.Send(t.Context(), work, queue.Message{Body: large(1), Group: group}))
		require.ErrorIs(t, c.Send(t.Context(), work, queue.Message{Body: large(101), Group: group}), queue.ErrLimit)
	}
}

// TestClaimOfAnotherWorkspaceIsRejected checks that a message cannot refer to a
// folder other than its group's.
func TestClaimOfAnotherWorkspaceIsRejected(t *testing.T) {
	t.Parallel()
	c := newClaims(t, nil)
	_, err := blob.PutBytes(t.Context(), c.store, "other/messages/1", []byte("private"), blob.PutOptions{})
	require.NoError(t, err)
	_, err = c.client.SendMessage(t.Context(), &awssqs.SendMessageInput{
		QueueUrl: c.url, MessageBody: aws.String("{}"), MessageGroupId: aws.String(org),
		MessageAttributes: map[string]types.MessageAttributeValue{
			"millrace-claim": {DataType: aws.String("String"), StringValue: aws.String("other/messages/1")},
		},
	})
	require.NoError(t, err)
	ds, err := c.Receive(t.Context(), work, 1, 0)
	require.Error(t, err)
	assert.Empty(t, ds)
	require.NotErrorIs(t, err, blob.ErrNotFound)
}

// TestLateDuplicateIsDropped covers a message that SQS delivers although it was
// deleted.
func TestLateDuplicateIsDropped(t *testing.T) {
	t.Parallel()
	c := newClaims(t, nil)
	require.NoError(t, c.Send(t.Context(), work, queue.Message{Body: large(200), Group: org}))
	require.NoError(t, c.store.Delete(t.Context(), c.kept(t, org)...))
	require.NoError(t, c.Send(t.Context(), work, queue.Message{Body: []byte("1"), Group: org}))
	ds, err := c.Receive(t.Context(), work, 10, 0)
	require.NoError(t, err)
	require.Len(t, ds, 1)
	assert.Equal(t, "1", string(ds[0].Body))
	require.NoError(t, c.Delete(t.Context(), work, ds[0].Receipt))
	stats, err := c.Stats(t.Context(), work)
	require.NoError(t, err)
	assert.Zero(t, stats, "it was deleted")
}

func TestMessages(t *testing.T) {
	t.Parallel()
	c := newClaims(t, nil)
	bodies := []string{"1", string(large(200)), string(large(300)), string(large(400))}
	for _, body := range bodies {
		require.NoError(t, c.Send(t.Context(), work, queue.Message{Body: []byte(body), Group: org}))
	}
	batch := c.raw(t, len(bodies))
	keys := c.kept(t, org)
	require.Len(t, keys, 3)
	claim := func(i int) string { return *batch.Records[i].MessageAttributes["millrace-claim"].StringValue }
	// One body is missing, one cannot be read, one message fails.
	require.NoError(t, c.store.Delete(t.Context(), claim(1)))
	broken := claim(2)
	c.Queues = sqs.New(sqs.Config{Objects: unreadable{c.store, broken}})
	var failing string
	response, err := c.Messages(func(_ context.Context, got events.SQSEvent) (events.SQSEventResponse, error) {
		require.Len(t, got.Records, 2)
		assert.Equal(t, bodies[0], got.Records[0].Body)
		assert.Equal(t, bodies[3], got.Records[1].Body)
		failing = got.Records[1].MessageId
		return events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{{ItemIdentifier: failing}}}, nil
	})(t.Context(), batch)
	require.NoError(t, err)
	assert.ElementsMatch(t, []events.SQSBatchItemFailure{
		{ItemIdentifier: failing}, {ItemIdentifier: batch.Records[2].MessageId},
	}, response.BatchItemFailures)
	assert.ElementsMatch(t, []string{broken, claim(3)}, c.kept(t, org), "what comes again keeps its body")

	// If the handler fails as a whole, or names a message that is not in the
	// batch, all messages are delivered again; if it succeeds, none.
	c.Queues = sqs.New(sqs.Config{Objects: c.store})
	batch.Records = batch.Records[2:]
	for _, answer := range []error{errors.New("broken"), nil} {
		_, err = c.Messages(func(context.Context, events.SQSEvent) (events.SQSEventResponse, error) {
			return events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{{ItemIdentifier: ""}}}, answer
		})(t.Context(), batch)
		require.ErrorIs(t, err, answer)
		assert.Len(t, c.kept(t, org), 2)
	}
	_, err = c.Messages(func(context.Context, events.SQSEvent) (events.SQSEventResponse, error) {
		return events.SQSEventResponse{}, nil
	})(t.Context(), batch)
	require.NoError(t, err)
	assert.Empty(t, c.kept(t, org))
}

// unreadable is a store that fails to read one object.
type unreadable struct {
	blob.Store
	key string
}

func (u unreadable) Get(ctx context.Context, key string, rng *blob.Range) (io.ReadCloser, blob.Object, error) {
	if key == u.key {
		return nil, blob.Object{}, errors.New("unreachable")
	}
	return u.Store.Get(ctx, key, rng)
}
