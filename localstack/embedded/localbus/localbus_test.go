package localbus_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/localbus"
	"millrace/localstack/proof/memory"
	"millrace/shared/platform/bus"
	"millrace/shared/platform/bus/bustest"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
)

func open(t *testing.T, names ...string) queue.Queues {
	t.Helper()
	defs := make([]queue.Definition, len(names))
	for i, name := range names {
		defs[i] = queue.Definition{Name: name, Visibility: time.Minute}
	}
	return memory.Queues(t, clock.System{}, defs)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	bustest.Exercise(t, func(t *testing.T, detailTypes []string) (bus.Bus, bustest.Receive) {
		queues := open(t, "events")
		b := localbus.New(queues, []localbus.Rule{{DetailTypes: detailTypes, Queue: "events"}})
		return b, func(ctx context.Context, n int) []bus.Envelope {
			var got []bus.Envelope
			for len(got) < n && ctx.Err() == nil {
				ds, _ := queues.Receive(ctx, "events", min(n-len(got), queue.MaxBatch), queue.MaxWait)
				for _, d := range ds {
					e, err := bus.DecodeEnvelope(d.Body)
					assert.NoError(t, err)
					got = append(got, e)
					assert.NoError(t, queues.Delete(t.Context(), "events", d.Receipt))
				}
			}
			return got
		}
	})
}

// TestRulesFeedEachQueueOnce, with the workspace as the group.
func TestRulesFeedEachQueueOnce(t *testing.T) {
	t.Parallel()
	queues := open(t, "one", "two")
	b := localbus.New(queues, []localbus.Rule{
		{DetailTypes: []string{"a", "b"}, Queue: "one"},
		{DetailTypes: []string{"a"}, Queue: "two"},
		{DetailTypes: []string{"a", "a"}, Queue: "one"},
	})
	require.NoError(t, b.Publish(t.Context(),
		bus.Event{DetailType: "a", Detail: []byte(`{ "n" : 1 }`), Workspace: "ws_1", Time: time.Unix(1700000000, 5), ID: "i", DedupeKey: "k"},
		bus.Event{DetailType: "b", Detail: []byte(`{}`)},
		bus.Event{DetailType: "c", Detail: []byte(`{}`)}))

	one, err := queues.Receive(t.Context(), "one", 10, 0)
	require.NoError(t, err)
	require.Len(t, one, 2)
	two, err := queues.Receive(t.Context(), "two", 10, 0)
	require.NoError(t, err)
	require.Len(t, two, 1)
	assert.Equal(t, "ws_1", two[0].Group)

	var event events.EventBridgeEvent
	require.NoError(t, json.Unmarshal(two[0].Body, &event))
	assert.NotEmpty(t, event.ID)
	event.ID = ""
	assert.Equal(t, events.EventBridgeEvent{
		Version: "0", DetailType: "a", Source: bus.Source, AccountID: localbus.Account,
		Time: time.Unix(1700000000, 0).UTC(), Region: localbus.Region,
		Resources: []string{"workspace/ws_1"},
		Detail:    []byte(`{"id":"i","type":"a","version":1,"org_id":"ws_1","time":"2023-11-14T22:13:20.000Z","dedupe_key":"k","data":{"n":1}}`),
	}, event)
	for _, d := range one {
		if d.Group == "ws_1" {
			assert.Equal(t, string(two[0].Body), string(d.Body), "every rule is handed the same event")
		}
	}
}

// TestRulesSelectByDetail: a rule with conditions takes the events that satisfy
// all of them.
func TestRulesSelectByDetail(t *testing.T) {
	t.Parallel()
	queues := open(t, "one", "two")
	b := localbus.New(queues, []localbus.Rule{
		{DetailTypes: []string{"a"}, Where: map[string][]string{"x": {"1", "2"}, "y": {"3"}}, Queue: "one"},
		{DetailTypes: []string{"a"}, Queue: "two"},
	})
	for _, detail := range []string{`{"x":"1","y":"3"}`, `{"x":"2","y":"3","z":1}`, `{"x":"1"}`, `{"x":"3","y":"3"}`, `{"x":1,"y":"3"}`, `{}`} {
		require.NoError(t, b.Publish(t.Context(), bus.Event{DetailType: "a", Detail: []byte(detail), Workspace: "ws_1"}))
	}
	count := func(name string) int {
		got, err := queues.Receive(t.Context(), name, 10, 0)
		require.NoError(t, err)
		return len(got)
	}
	assert.Equal(t, []int{2, 6}, []int{count("one"), count("two")})
}

func TestPublishToUnknownQueue(t *testing.T) {
	t.Parallel()
	b := localbus.New(open(t), []localbus.Rule{{DetailTypes: []string{"a"}, Queue: "absent"}})
	err := b.Publish(t.Context(), bus.Event{DetailType: "a", Detail: []byte(`{}`)})
	require.ErrorIs(t, err, queue.ErrUnknownQueue)
}

func BenchmarkPublishUnmatched(b *testing.B) {
	quiet := localbus.New(nil, nil)
	event := bus.Event{DetailType: "run.finished", Detail: []byte(`{"run_id":"01J8Z3","state":"SUCCEEDED"}`), Workspace: "ws"}
	b.ReportAllocs()
	for b.Loop() {
		if err := quiet.Publish(b.Context(), event); err != nil {
			b.Fatal(err)
		}
	}
}
