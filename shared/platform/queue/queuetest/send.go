package queuetest

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/queue"
)

func sendOne(t *testing.T, newQueues NewQueues) {
	qs := one(t, newQueues, long)
	before := time.Now()
	text := []byte(`{"text":"ünïcödé \u0000 \"quoted\"", "n": 1}`)
	require.NoError(t, qs.Send(t.Context(), name, queue.Message{Body: text, Group: "ws_1"}))
	d := next(t, qs, name)
	assert.Equal(t, string(text), string(d.Body), "a body arrives byte for byte")
	assert.Equal(t, "ws_1", d.Group)
	assert.Equal(t, 1, d.Receives)
	assert.NotEmpty(t, d.ID)
	assert.NotEmpty(t, d.Receipt)
	assert.WithinRange(t, d.Sent, before.Add(-2*time.Second), time.Now().Add(2*time.Second))
	none(t, qs, name)
}

func sendNothing(t *testing.T, newQueues NewQueues) {
	qs := one(t, newQueues, long)
	require.NoError(t, qs.Send(t.Context(), name))
	none(t, qs, name)
}

func sendManyBatches(t *testing.T, newQueues NewQueues) {
	qs := one(t, newQueues, long)
	msgs := numbered(2*queue.MaxBatch+5, "ws_1")
	require.NoError(t, qs.Send(t.Context(), name, msgs...))
	got := collect(t, qs, name, len(msgs))
	assert.ElementsMatch(t, wanted(msgs), bodies(got))
	ids := make(map[string]bool)
	for _, d := range got {
		ids[d.ID] = true
	}
	assert.Len(t, ids, len(msgs), "every message has an id of its own")
}

// sendLargeBodies sends more in one call than one request of SQS may hold.
func sendLargeBodies(t *testing.T, newQueues NewQueues) {
	qs := one(t, newQueues, long)
	msgs := make([]queue.Message, 3)
	for i := range msgs {
		text := bytes.Repeat([]byte{'a' + byte(i)}, queue.MaxBody-2)
		msgs[i].Body = append(append([]byte{'"'}, text...), '"')
	}
	require.NoError(t, qs.Send(t.Context(), name, msgs...))
	got := bodies(collect(t, qs, name, len(msgs)))
	want := wanted(msgs)
	for _, b := range want { // ElementsMatch would print them
		assert.True(t, len(got) == len(want) && (got[0] == b || got[1] == b || got[2] == b))
	}
}

func sendDelay(t *testing.T, newQueues NewQueues) {
	qs := one(t, newQueues, long)
	sent := time.Now()
	require.NoError(t, qs.Send(t.Context(), name,
		queue.Message{Body: body(1), Delay: time.Second}, queue.Message{Body: body(0)}))
	assert.Equal(t, string(body(0)), string(next(t, qs, name).Body))
	assert.Equal(t, string(body(1)), string(next(t, qs, name).Body))
	assert.GreaterOrEqual(t, time.Since(sent), 900*time.Millisecond)
}
