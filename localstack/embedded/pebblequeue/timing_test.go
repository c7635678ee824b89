package pebblequeue

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/queue"
)

// timed runs a case on the fake clock of a bubble, so that waits are exact.
func timed(t *testing.T, visibility time.Duration, run func(t *testing.T, qs *Queues)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		run(t, open(t, filepath.Join(t.TempDir(), "queue"), queue.Definition{Name: "q", Visibility: visibility}))
	})
}

func send(t *testing.T, qs *Queues, msgs ...queue.Message) {
	t.Helper()
	require.NoError(t, qs.Send(t.Context(), "q", msgs...))
}

// receive waits for one delivery and returns it with the time it took.
func receive(t *testing.T, qs *Queues, from string) (queue.Delivery, time.Duration) {
	t.Helper()
	began := time.Now()
	ds, err := qs.Receive(t.Context(), from, 1, queue.MaxWait)
	require.NoError(t, err)
	require.Len(t, ds, 1)
	return ds[0], time.Since(began)
}

func text(s string) queue.Message { return queue.Message{Body: []byte(`"` + s + `"`)} }

func TestReceiveReturnsWhenMessageIsSent(t *testing.T) {
	t.Parallel()
	timed(t, time.Minute, func(t *testing.T, qs *Queues) {
		go func() {
			<-time.After(7 * time.Second)
			assert.NoError(t, qs.Send(t.Context(), "q", text("a")))
		}()
		_, took := receive(t, qs, "q")
		assert.Equal(t, 7*time.Second, took)
	})
}

func TestReceiveWaitsGivenTime(t *testing.T) {
	t.Parallel()
	timed(t, time.Minute, func(t *testing.T, qs *Queues) {
		began := time.Now()
		ds, err := qs.Receive(t.Context(), "q", 1, 3*time.Second)
		require.NoError(t, err)
		assert.Empty(t, ds)
		assert.Equal(t, 3*time.Second, time.Since(began))

		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err = qs.Receive(ctx, "q", 1, queue.MaxWait)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 5*time.Second, time.Since(began))
		assert.Empty(t, qs.lanes["q"].waiters)
	})
}

func TestDelayIsExact(t *testing.T) {
	t.Parallel()
	timed(t, time.Minute, func(t *testing.T, qs *Queues) {
		later, sooner := text("later"), text("sooner")
		later.Delay, sooner.Delay = 9*time.Second, 1500*time.Millisecond
		send(t, qs, later, sooner)
		d, took := receive(t, qs, "q")
		assert.Equal(t, `"sooner"`, string(d.Body))
		assert.Equal(t, 1500*time.Millisecond, took)
		d, took = receive(t, qs, "q")
		assert.Equal(t, `"later"`, string(d.Body))
		assert.Equal(t, 7500*time.Millisecond, took)
	})
}

func TestVisibilityIsExact(t *testing.T) {
	t.Parallel()
	timed(t, 10*time.Second, func(t *testing.T, qs *Queues) {
		send(t, qs, text("a"))
		first, _ := receive(t, qs, "q")
		second, took := receive(t, qs, "q")
		assert.Equal(t, 10*time.Second, took)
		assert.Equal(t, first.ID, second.ID)
		require.ErrorIs(t, qs.Extend(t.Context(), "q", time.Minute, first.Receipt), queue.ErrReceipt)

		// Longer than the time-out, then shorter than the remaining time.
		require.NoError(t, qs.Extend(t.Context(), "q", 15*time.Second, second.Receipt))
		third, took := receive(t, qs, "q")
		assert.Equal(t, 15*time.Second, took)
		require.NoError(t, qs.Extend(t.Context(), "q", 2*time.Second, third.Receipt))
		fourth, took := receive(t, qs, "q")
		assert.Equal(t, 2*time.Second, took)
		assert.Equal(t, 4, fourth.Receives)

		// An expired delivery is not held, even if the message was not delivered
		// again.
		<-time.After(11 * time.Second)
		require.ErrorIs(t, qs.Extend(t.Context(), "q", time.Minute, fourth.Receipt), queue.ErrReceipt)
		stats, err := qs.Stats(t.Context(), "q")
		require.NoError(t, err)
		assert.Equal(t, queue.Stats{Visible: 1, Oldest: 38 * time.Second}, stats)

		// A late delete finds its message among the ready ones.
		require.NoError(t, qs.Delete(t.Context(), "q", fourth.Receipt))
		ds, err := qs.Receive(t.Context(), "q", 1, queue.MaxWait)
		require.NoError(t, err)
		assert.Empty(t, ds)
	})
}

func TestExtendZeroWakesReceiver(t *testing.T) {
	t.Parallel()
	timed(t, time.Hour, func(t *testing.T, qs *Queues) {
		send(t, qs, text("a"))
		d, _ := receive(t, qs, "q")
		go func() {
			<-time.After(time.Second)
			assert.NoError(t, qs.Extend(t.Context(), "q", 0, d.Receipt))
		}()
		_, took := receive(t, qs, "q")
		assert.Equal(t, time.Second, took)
	})
}

// TestRedriveNeedsNoReceiver lets the last delivery expire without a receiver.
func TestRedriveNeedsNoReceiver(t *testing.T) {
	t.Parallel()
	timed(t, 5*time.Second, func(t *testing.T, qs *Queues) {
		send(t, qs, text("a"))
		var last queue.Delivery
		for range queue.MaxReceives {
			last, _ = receive(t, qs, "q")
		}
		d, took := receive(t, qs, queue.Dead("q"))
		assert.Equal(t, 5*time.Second, took)
		assert.Equal(t, 1, d.Receives)
		assert.Empty(t, qs.lanes["q"].held)
		require.NoError(t, qs.Delete(t.Context(), "q", last.Receipt), "too late, and without effect")
		for range 2 * queue.MaxReceives { // it stays, however often it is received
			require.NoError(t, qs.Extend(t.Context(), queue.Dead("q"), 0, d.Receipt))
			d, _ = receive(t, qs, queue.Dead("q"))
		}
	})
}

// TestEveryReceiverIsWoken sends messages in one call to several waiting
// receivers of one message each, some of which give up first.
func TestEveryReceiverIsWoken(t *testing.T) {
	t.Parallel()
	timed(t, time.Minute, func(t *testing.T, qs *Queues) {
		const receivers = 20
		got := make(chan int, 2*receivers)
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 2 * receivers {
			ctx := ctx
			if i%2 == 0 {
				ctx = t.Context()
			}
			go func() {
				ds, _ := qs.Receive(ctx, "q", 1, queue.MaxWait)
				got <- len(ds)
			}()
		}
		synctest.Wait()
		cancel()
		msgs := make([]queue.Message, receivers)
		for i := range msgs {
			msgs[i] = text("m")
		}
		send(t, qs, msgs...)
		began, total := time.Now(), 0
		for range 2 * receivers {
			total += <-got
		}
		assert.Equal(t, receivers, total)
		assert.Zero(t, time.Since(began))
	})
}

func TestGroupsTakeTurns(t *testing.T) {
	t.Parallel()
	timed(t, time.Minute, func(t *testing.T, qs *Queues) {
		var msgs []queue.Message
		for _, group := range []struct {
			name string
			n    int
		}{{"a", 6}, {"b", 2}, {"", 1}, {"c", 3}} {
			for range group.n {
				msgs = append(msgs, queue.Message{Body: []byte("1"), Group: group.name})
			}
		}
		send(t, qs, msgs...)
		var order string
		for _, max := range []int{5, 5, 5} {
			ds, err := qs.Receive(t.Context(), "q", max, 0)
			require.NoError(t, err)
			for _, d := range ds {
				order += d.Group + "."
			}
		}
		assert.Equal(t, "a.b..c.a.b.c.a.c.a.a.a.", order)
	})
}
