package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/runtime"
	"millrace/localstack/proof/memory"
	"millrace/shared/kit/due"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/web/fn"
)

var kind = due.Kind{Name: "q"}

// sender returns a runtime of a function that sends its payload to another one,
// which takes it as timed work.
func sender(t *testing.T, handle fn.MessageHandler) (*runtime.Runtime, queue.Queues) {
	queues := memory.Queues(t, clock.System{}, []queue.Definition{{Name: kind.Queue(), Visibility: time.Hour}})
	specs := []fn.Spec{
		{Name: "sender", Handle: func(d fn.Deps) fn.Handler {
			return func(ctx context.Context, payload json.RawMessage) (any, error) {
				var bodies []string
				if err := json.Unmarshal(payload, &bodies); err != nil {
					return nil, err
				}
				for _, b := range bodies {
					if err := d.Queues.Send(ctx, kind.Queue(), queue.Message{Body: []byte(b), Group: "g"}); err != nil {
						return nil, err
					}
				}
				return nil, nil
			}
		}},
		{Name: "eater", Trigger: fn.Trigger{Due: []due.Kind{kind}}, Messages: func(fn.Deps) fn.MessageHandler { return handle }},
	}
	rt, err := runtime.New(runtime.Config{Specs: specs, Deps: fn.Deps{Queues: queues, Log: slog.New(slog.DiscardHandler)}, Workers: 4})
	require.NoError(t, err)
	rt.Start(specs, false)
	return rt, queues
}

func TestWaitForMessagesOfInvocation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var handled atomic.Int64
		rt, queues := sender(t, func(_ context.Context, e lambda.SQSEvent) (lambda.SQSEventResponse, error) {
			m := e.Records[0]
			switch {
			case m.Body == "poison", m.Body == "late" && m.Attributes["ApproximateReceiveCount"] == "1":
				return lambda.SQSEventResponse{}, errors.New("no")
			case m.Body == "back" && m.Attributes["ApproximateReceiveCount"] == "1":
				return lambda.SQSEventResponse{BatchItemFailures: []lambda.SQSBatchItemFailure{{ItemIdentifier: m.MessageId}}}, nil
			}
			time.Sleep(time.Second)
			handled.Add(1)
			return lambda.SQSEventResponse{}, nil
		})
		defer rt.Stop(t.Context())
		invoke := func(ctx context.Context, payload string) (*runtime.Handed, error) {
			ctx, handed := rt.Track(ctx)
			t.Cleanup(handed.Close)
			_, err := rt.Invoke(ctx, "sender", json.RawMessage(payload))
			require.NoError(t, err)
			began := time.Now()
			err = handed.Wait(ctx)
			t.Logf("%s settled after %s", payload, time.Since(began))
			return handed, err
		}
		_, err := invoke(t.Context(), `[]`)
		require.NoError(t, err)
		for payload, want := range map[string]int64{
			`["a"]`: 1, `["a","a","b","c","d","e","f","g","h"]`: 9, `["late","a"]`: 2, `["back"]`: 1, `["poison","a"]`: 1,
		} {
			handled.Store(0)
			_, err := invoke(t.Context(), payload)
			require.NoError(t, err)
			assert.Equal(t, want, handled.Load(), payload)
		}
		time.Sleep(2 * time.Minute) // until the message that was given up is a dead letter
		stats, err := queues.Stats(t.Context(), kind.Queue())
		require.NoError(t, err)
		assert.Equal(t, queue.Stats{}, stats)

		// Messages sent elsewhere do not count, and the wait is bounded.
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err = rt.Invoke(t.Context(), "sender", json.RawMessage(`["poison"]`))
		require.NoError(t, err)
		handed, err := invoke(ctx, `["a"]`)
		require.NoError(t, err)
		handed.Close()
		_, err = invoke(ctx, `["poison"]`)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
