package queuetest

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/queue"
)

func limitsRefused(t *testing.T, newQueues NewQueues) {
	qs := one(t, newQueues, long)
	require.NoError(t, qs.Send(t.Context(), name, queue.Message{Body: body(1)}))
	d := next(t, qs, name)

	send := func(m queue.Message) error { return qs.Send(t.Context(), name, m) }
	receive := func(max int, wait time.Duration) error {
		_, err := qs.Receive(t.Context(), name, max, wait)
		return err
	}
	for what, err := range map[string]error{
		"empty body":        send(queue.Message{}),
		"body too large":    send(queue.Message{Body: bytes.Repeat([]byte{'x'}, queue.MaxBody+1)}),
		"control character": send(queue.Message{Body: []byte("\"\x02\"")}),
		"negative delay":    send(queue.Message{Body: body(1), Delay: -time.Second}),
		"long delay":        send(queue.Message{Body: body(1), Delay: queue.MaxDelay + time.Second}),
		"long group":        send(queue.Message{Body: body(1), Group: strings.Repeat("g", queue.MaxGroup+1)}),
		"no messages":       receive(0, 0),
		"many messages":     receive(queue.MaxBatch+1, 0),
		"negative wait":     receive(1, -time.Second),
		"long wait":         receive(1, queue.MaxWait+time.Second),
		"negative time-out": qs.Extend(t.Context(), name, -time.Second, d.Receipt),
		"long time-out":     qs.Extend(t.Context(), name, queue.MaxExtend+time.Second, d.Receipt),
	} {
		assert.ErrorIs(t, err, queue.ErrLimit, what)
	}
	none(t, qs, name)
}

func unknownQueue(t *testing.T, newQueues NewQueues) {
	qs := one(t, newQueues, long)
	const absent = "absent"
	assert.ErrorIs(t, qs.Send(t.Context(), absent, queue.Message{Body: body(1)}), queue.ErrUnknownQueue)
	_, err := qs.Receive(t.Context(), absent, 1, 0)
	assert.ErrorIs(t, err, queue.ErrUnknownQueue)
	assert.ErrorIs(t, qs.Delete(t.Context(), absent, "receipt"), queue.ErrUnknownQueue)
	assert.ErrorIs(t, qs.Extend(t.Context(), absent, time.Second, "receipt"), queue.ErrUnknownQueue)
	_, err = qs.Stats(t.Context(), absent)
	assert.ErrorIs(t, err, queue.ErrUnknownQueue)
	_, err = qs.Receive(t.Context(), queue.Dead(name), 1, 0)
	assert.NoError(t, err, "a dead-letter queue is a queue")
}
