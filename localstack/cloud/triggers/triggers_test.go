package triggers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/cloud/resources"
	"millrace/localstack/cloud/triggers"
	"millrace/localstack/emulators"
	"millrace/shared/platform/ids"
)

func TestMain(m *testing.M) {
	code := m.Run()
	emulators.StopAll()
	os.Exit(code)
}

type invoke = func(ctx context.Context, function string, payload []byte) ([]byte, error)

// open creates a queue with n messages and a visibility time-out of a second.
func open(t *testing.T, n int, do invoke) (*triggers.Triggers, resources.Mapping) {
	t.Helper()
	client := sqs.NewFromConfig(emulators.SQS(t).Config())
	name := "test-" + strings.ToLower(ids.Slug())
	made, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: map[string]string{"VisibilityTimeout": "1"}})
	require.NoError(t, err)
	for i := range n {
		_, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{
			QueueUrl: made.QueueUrl, MessageBody: aws.String(fmt.Sprint(i)),
			MessageAttributes: map[string]types.MessageAttributeValue{"kind": {DataType: aws.String("String"), StringValue: aws.String("k")}},
		})
		require.NoError(t, err)
	}
	tr := triggers.New(triggers.Config{SQS: func(string) *sqs.Client { return client }, Region: "us-east-1", AccountID: "1", Invoke: do, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(tr.Stop)
	return tr, resources.Mapping{Queue: name, Function: "f", Batch: 10, Partial: true}
}

func batch(t *testing.T, payload []byte) events.SQSEvent {
	t.Helper()
	var e events.SQSEvent
	require.NoError(t, json.Unmarshal(payload, &e))
	return e
}

func TestOnlyFailedMessagesAreDeliveredAgain(t *testing.T) {
	t.Parallel()
	var seen [][]string
	tr, m := open(t, 3, func(_ context.Context, function string, payload []byte) ([]byte, error) {
		assert.Equal(t, "f", function)
		var bodies []string
		var out events.SQSEventResponse
		for _, r := range batch(t, payload).Records {
			bodies = append(bodies, r.Body)
			assert.Equal(t, "aws:sqs", r.EventSource)
			assert.Contains(t, r.EventSourceARN, "arn:aws:sqs:us-east-1:1:test-")
			assert.Equal(t, "k", *r.MessageAttributes["kind"].StringValue)
			assert.NotEmpty(t, r.Attributes["ApproximateReceiveCount"])
			if r.Body == "1" && len(seen) == 0 {
				out.BatchItemFailures = append(out.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: r.MessageId})
			}
		}
		seen = append(seen, bodies)
		return json.Marshal(out)
	})
	n, err := tr.Deliver(t.Context(), m, 5)
	require.NoError(t, err)
	assert.Equal(t, 3, n)
	n, err = tr.Deliver(t.Context(), m, 5)
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	n, err = tr.Deliver(t.Context(), m, 2)
	require.NoError(t, err)
	assert.Zero(t, n)
	require.Len(t, seen, 2)
	assert.ElementsMatch(t, []string{"0", "1", "2"}, seen[0])
	assert.Equal(t, []string{"1"}, seen[1])
}

func TestFailedBatchIsDeliveredAgain(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	answers := []string{"", "no JSON", "{}"}
	tr, m := open(t, 1, func(context.Context, string, []byte) ([]byte, error) {
		answer := answers[calls.Add(1)-1]
		if answer == "" {
			return nil, errors.New("down")
		}
		return []byte(answer), nil
	})
	for i, want := range []string{"down", "f answered \"no JSON\"", ""} {
		_, err := tr.Deliver(t.Context(), m, 5)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want, i)
	}
	assert.EqualValues(t, 3, calls.Load())
}

func TestFeedLimitsConcurrency(t *testing.T) {
	t.Parallel()
	const messages, bound = 24, 10
	var mu sync.Mutex
	now, most := 0, 0
	done := map[string]bool{}
	tr, m := open(t, messages, func(_ context.Context, _ string, payload []byte) ([]byte, error) {
		mu.Lock()
		now++
		most = max(most, now)
		for _, r := range batch(t, payload).Records {
			done[r.Body] = true
		}
		mu.Unlock()
		<-time.After(20 * time.Millisecond) // let the others run
		mu.Lock()
		now--
		mu.Unlock()
		return []byte(`{}`), nil
	})
	m.Batch = 1
	tr.Feed(m)
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(done) == messages && now == 0
	}, time.Minute, 5*time.Millisecond)
	tr.Stop()
	assert.LessOrEqual(t, most, bound)
	assert.Greater(t, most, 1)
}

func TestSchedulesFireAtFullMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var fired []string
		tr := triggers.New(triggers.Config{Region: "r", AccountID: "1", Log: slog.New(slog.DiscardHandler), Invoke: func(_ context.Context, function string, payload []byte) ([]byte, error) {
			fired = append(fired, fmt.Sprintf("%s %s %s", time.Now().UTC().Format("15:04:05"), function, payload))
			return nil, errors.New("a failure ends nothing")
		}})
		<-time.After(10 * time.Second) // somewhere within a minute
		tr.Fire(resources.Schedule{Name: "tick", Function: "f", Input: json.RawMessage(`{"a":1}`)})
		<-time.After(3 * time.Minute)
		tr.Stop()
		assert.Equal(t, []string{`00:01:00 f {"a":1}`, `00:02:00 f {"a":1}`, `00:03:00 f {"a":1}`}, fired)
	})
}
