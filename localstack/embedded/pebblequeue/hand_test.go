package pebblequeue

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/share"
	"millrace/shared/platform/queue"
)

// handed collects what is handed on.
type handed struct {
	*Queues
	slots *share.Slots
	mu    sync.Mutex
	got   []queue.Delivery
}

func (h *handed) take(m queue.Delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.got = append(h.got, m)
}

// bodies returns the bodies handed on since the last call.
func (h *handed) bodies() (out []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.got {
		out = append(out, string(m.Body))
	}
	h.got = nil
	return out
}

func (h *handed) send(t *testing.T, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		send(t, h.Queues, queue.Message{Body: []byte(body), Group: "a"})
	}
}

// received returns the bodies of a receive with the same slots.
func (h *handed) received(t *testing.T, wait time.Duration) (out []string) {
	t.Helper()
	got, err := h.ReceiveShared(t.Context(), "q", 10, wait, h.slots)
	require.NoError(t, err)
	for _, m := range got {
		out = append(out, string(m.Body))
	}
	return out
}

// hands calls a case with a queue that hands messages on, and 9 slots, of which a
// group may have 8.
func hands(t *testing.T, run func(t *testing.T, h *handed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		qs, done := inMemory(t)
		defer done()
		h := &handed{Queues: qs, slots: share.New(9)}
		defer qs.Hand(t.Context(), "q", h.slots, h.take)()
		run(t, h)
	})
}

func TestHandedMessageIsDelivered(t *testing.T) {
	t.Parallel()
	hands(t, func(t *testing.T, h *handed) {
		body := []byte("1")
		send(t, h.Queues, queue.Message{Body: body, Group: "a"})
		body[0] = '2'
		require.Len(t, h.got, 1, "before Send returns")
		m := h.got[0]
		assert.Equal(t, queue.Delivery{ID: m.ID, Receipt: m.Receipt, Body: []byte("1"), Group: "a", Receives: 1, Sent: time.Now().UTC()}, m)
		assert.Equal(t, 1, h.slots.Taken())
		stats, err := h.Stats(t.Context(), "q")
		require.NoError(t, err)
		assert.Equal(t, queue.Stats{InFlight: 1}, stats)
		require.NoError(t, h.Extend(t.Context(), "q", time.Minute, m.Receipt))
		h.slots.Release("a")

		time.Sleep(time.Minute)
		again, err := h.ReceiveShared(t.Context(), "q", 10, 0, h.slots)
		require.NoError(t, err)
		require.Len(t, again, 1, "it was not deleted")
		assert.Equal(t, 2, again[0].Receives)
		assert.Equal(t, m.ID, again[0].ID)
		require.ErrorIs(t, h.Extend(t.Context(), "q", time.Minute, m.Receipt), queue.ErrReceipt)
		require.NoError(t, h.Delete(t.Context(), "q", m.Receipt), "a receipt of an earlier delivery deletes")
		stats, err = h.Stats(t.Context(), "q")
		require.NoError(t, err)
		assert.Equal(t, queue.Stats{}, stats)
		assert.Len(t, h.bodies(), 1)
	})
}

func TestMessagesInTheWayAreReceived(t *testing.T) {
	t.Parallel()
	hands(t, func(t *testing.T, h *handed) {
		send(t, h.Queues, queue.Message{Body: []byte("0"), Group: "a", Delay: time.Second})
		assert.Empty(t, h.bodies(), "it is delayed")
		h.send(t, "1")
		assert.Empty(t, h.bodies(), "its group waits for the delayed one")
		assert.Equal(t, []string{"1"}, h.received(t, 0))
		assert.Equal(t, []string{"0"}, h.received(t, queue.MaxWait))
		h.slots.Release("a")
		h.slots.Release("a")

		h.send(t, "1", "2", "3", "4", "5", "6", "7", "8", "9", "10")
		assert.Equal(t, []string{"1", "2", "3", "4", "5", "6", "7", "8"}, h.bodies(), "as many as the group may have")
		send(t, h.Queues, queue.Message{Body: []byte("11"), Group: "b"})
		assert.Empty(t, h.bodies(), "another's waits for the turns of those before it")
		assert.Equal(t, []string{"11"}, h.received(t, 0))
		h.slots.Release("b")
		began := time.Now()
		time.AfterFunc(time.Second, func() { h.slots.Release("a") })
		assert.Equal(t, []string{"9"}, h.received(t, queue.MaxWait))
		assert.Equal(t, time.Second, time.Since(began), "a receiver gets it as soon as there is a slot")
		h.slots.Release("a")
		h.send(t, "12")
		assert.Empty(t, h.bodies(), "it does not overtake")
		assert.Equal(t, []string{"10"}, h.received(t, 0))
	})
}

func TestHandEnds(t *testing.T) {
	t.Parallel()
	hands(t, func(t *testing.T, h *handed) {
		ctx, cancel := context.WithCancel(t.Context())
		stop := h.Hand(ctx, "q", h.slots, h.take)
		h.send(t, "1")
		assert.Equal(t, []string{"1"}, h.bodies())
		cancel()
		h.send(t, "2")
		assert.Empty(t, h.bodies())
		assert.Equal(t, []string{"2"}, h.received(t, 0))
		h.Hand(t.Context(), "q", h.slots, h.take)
		h.send(t, "3")
		assert.Equal(t, []string{"3"}, h.bodies())
		stop()
		h.send(t, "4")
		assert.Empty(t, h.bodies())
		assert.Equal(t, []string{"4"}, h.received(t, 0))
	})
}

// TestMessageThatWasFoundIsNotHanded checks that a message that a receiver found in
// the store before its sender came to register it is not delivered once more.
func TestMessageThatWasFoundIsNotHanded(t *testing.T) {
	t.Parallel()
	qs, done := inMemory(t)
	defer done()
	h := &handed{Queues: qs, slots: share.New(9)}
	defer qs.Hand(t.Context(), "q", h.slots, h.take)()
	l := qs.lanes["q"]
	l.handing.Lock()
	sent := make(chan error, 1)
	go func() { sent <- qs.Send(t.Context(), "q", messages("a", 1)...) }()
	require.Eventually(t, func() bool { return l.total.Load() == 1 }, 10*time.Second, time.Millisecond)
	l.add(position{group: "a", at: 1, seq: 0}) // as another sender to the group does
	received := make(chan []queue.Delivery, 1)
	go func() {
		got, err := qs.ReceiveShared(t.Context(), "q", 1, queue.MaxWait, h.slots)
		assert.NoError(t, err)
		received <- got
	}()
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.inFlight == 1
	}, 10*time.Second, time.Millisecond)
	l.handing.Unlock()
	require.NoError(t, <-sent)
	got := <-received
	require.Len(t, got, 1)
	require.NoError(t, qs.Delete(t.Context(), "q", got[0].Receipt))
	assert.Empty(t, h.bodies())
	assert.Empty(t, h.received(t, 0))
	assert.Zero(t, l.total.Load())
	h.send(t, "next")
	assert.Equal(t, []string{"next"}, h.bodies())
}

// TestHandAndReceiveDeliverOnce sends from many goroutines to several groups while a
// receiver takes what is not handed on: each message is delivered once.
func TestHandAndReceiveDeliverOnce(t *testing.T) {
	t.Parallel()
	qs, done := inMemory(t)
	defer done()
	const senders, each = 8, 200
	slots := share.New(16)
	var mu sync.Mutex
	seen := map[string]int{}
	all := make(chan struct{})
	handle := func(m queue.Delivery) {
		assert.NoError(t, qs.Delete(context.Background(), "q", m.Receipt))
		slots.Release(m.Group)
		mu.Lock()
		defer mu.Unlock()
		seen[m.ID] += m.Receives
		if len(seen) == senders*each {
			close(all)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	stop := qs.Hand(ctx, "q", slots, func(m queue.Delivery) { working.Go(func() { handle(m) }) })
	var receiver, sending sync.WaitGroup
	receiver.Go(func() {
		for ctx.Err() == nil {
			got, err := qs.ReceiveShared(ctx, "q", 10, time.Second, slots)
			if ctx.Err() == nil {
				assert.NoError(t, err)
			}
			for _, m := range got {
				handle(m)
			}
		}
	})
	for i := range senders {
		sending.Go(func() {
			for range each {
				assert.NoError(t, qs.Send(t.Context(), "q", messages([]string{"a", "b", "c"}[i%3], 1)...))
			}
		})
	}
	sending.Wait()
	select {
	case <-all:
	case <-time.After(30 * time.Second):
		assert.Fail(t, "messages are lost")
	}
	cancel()
	stop()
	receiver.Wait()
	working.Wait()
	assert.Len(t, seen, senders*each)
	for id, n := range seen {
		assert.Equal(t, 1, n, id)
	}
	assert.Zero(t, qs.lanes["q"].total.Load())
	assert.Zero(t, slots.Taken())
}
