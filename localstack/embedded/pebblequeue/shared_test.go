package pebblequeue

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/localstack/embedded/share"
	"millrace/localstack/embedded/store"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
)

// inMemory opens a queue q in memory.
func inMemory(t require.TestingT) (qs *Queues, done func()) {
	db, err := store.OpenMemory()
	require.NoError(t, err)
	qs, err = New(context.Background(), db, clock.System{}, []queue.Definition{{Name: "q", Visibility: time.Hour}})
	require.NoError(t, err)
	return qs, func() {
		require.NoError(t, qs.Close())
		require.NoError(t, db.Close())
	}
}

func messages(group string, n int) []queue.Message {
	msgs := make([]queue.Message, n)
	for i := range msgs {
		msgs[i] = queue.Message{Body: []byte("1"), Group: group}
	}
	return msgs
}

// TestReceiveSharedWaitsForPlace checks that messages of a group with its full
// share stay in the queue until a slot is free.
func TestReceiveSharedWaitsForPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		qs, done := inMemory(t)
		defer done()
		slots := share.New(9)
		receive := func(wait time.Duration) []queue.Delivery {
			got, err := qs.ReceiveShared(t.Context(), "q", 10, wait, slots)
			require.NoError(t, err)
			return got
		}
		require.NoError(t, qs.Send(t.Context(), "q", messages("a", 20)...))
		held := receive(0)
		require.Len(t, held, 8)
		began := time.Now()
		require.Empty(t, receive(time.Second))
		assert.Equal(t, time.Second, time.Since(began), "it waits, and does not try again and again")

		later := make(chan []queue.Delivery, 1)
		go func() { later <- receive(20 * time.Second) }()
		synctest.Wait()
		require.NoError(t, qs.Send(t.Context(), "q", messages("a", 1)...))
		synctest.Wait()
		require.Empty(t, later)
		require.NoError(t, qs.Send(t.Context(), "q", messages("b", 1)...))
		got := <-later
		require.Len(t, got, 1)
		assert.Equal(t, "b", got[0].Group, "nobody stands in its way")
		assert.Zero(t, time.Since(began)-time.Second)

		go func() { later <- receive(20 * time.Second) }()
		synctest.Wait()
		slots.Release("a")
		synctest.Wait()
		require.Empty(t, later, "one is left for others")
		slots.Release("a")
		got = <-later
		require.Len(t, got, 1)
		assert.Equal(t, "a", got[0].Group)
		assert.Equal(t, 1, got[0].Receives, "what waited for a slot was not delivered")
		stats, err := qs.Stats(t.Context(), "q")
		require.NoError(t, err)
		assert.Equal(t, 12, stats.Visible)
		assert.Equal(t, 10, stats.InFlight)
	})
}

// TestReceiveSharedReturnsPlaces checks that only returned messages take
// slots.
func TestReceiveSharedReturnsPlaces(t *testing.T) {
	t.Parallel()
	qs, done := inMemory(t)
	slots := share.New(9)
	require.NoError(t, qs.Send(t.Context(), "q", messages("a", 1)...))
	got, err := qs.ReceiveShared(t.Context(), "q", 10, 0, slots)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.NoError(t, qs.Extend(t.Context(), "q", 0, got[0].Receipt)) // ready again, and deleted while it is ready
	require.NoError(t, qs.Delete(t.Context(), "q", got[0].Receipt))
	slots.Release("a")
	got, err = qs.ReceiveShared(t.Context(), "q", 10, 0, slots)
	require.NoError(t, err)
	assert.Empty(t, got)
	assert.Zero(t, slots.Taken())
	require.NoError(t, qs.Send(t.Context(), "q", messages("a", 1)...))
	done()
	_, err = qs.ReceiveShared(t.Context(), "q", 10, 0, slots)
	require.ErrorIs(t, err, ErrClosed)
	assert.Zero(t, slots.Taken())
}

// TestReceiveSharedIsFair checks, for any sends and completions, that no group
// with a message waits while it may have a slot, and that none gets a slot
// before another that holds fewer.
func TestReceiveSharedIsFair(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		qs, done := inMemory(t)
		defer done()
		slots := share.New(rapid.IntRange(1, 30).Draw(t, "slots"))
		group := rapid.SampledFrom([]string{"", "a", "b", "c"})
		ready, held := map[string]int{}, map[string]int{}
		var running []queue.Delivery
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				to, n := group.Draw(t, "group"), rapid.IntRange(1, 25).Draw(t, "n")
				require.NoError(t, qs.Send(context.Background(), "q", messages(to, n)...))
				ready[to] += n
			case 1:
				for n := rapid.IntRange(0, len(running)).Draw(t, "finish"); n > 0; n-- {
					i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
					m := running[i]
					running = append(running[:i], running[i+1:]...)
					if rapid.IntRange(0, 3).Draw(t, "again") == 0 {
						require.NoError(t, qs.Extend(context.Background(), "q", 0, m.Receipt))
						ready[m.Group]++
					} else {
						require.NoError(t, qs.Delete(context.Background(), "q", m.Receipt))
					}
					held[m.Group]--
					slots.Release(m.Group)
				}
			}
			most := rapid.IntRange(1, queue.MaxBatch).Draw(t, "most")
			got, err := qs.ReceiveShared(context.Background(), "q", most, 0, slots)
			require.NoError(t, err)
			for _, m := range got {
				running = append(running, m)
				ready[m.Group]--
				held[m.Group]++
			}
			require.Equal(t, len(running), slots.Taken())
			for who, n := range ready {
				require.GreaterOrEqual(t, n, 0)
				if n == 0 {
					continue
				}
				if len(got) < most {
					require.NotEmpty(t, slots.Why(who, "", ""), "%q may have a slot", who)
				}
				for _, m := range got {
					require.GreaterOrEqual(t, held[who], held[m.Group]-1, "%q came before %q", m.Group, who)
				}
			}
		}
	})
}

func TestFifoRemoves(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var f fifo[int]
		var want []int
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(want) == 0 || rapid.Bool().Draw(t, "push") {
				f.push(i)
				want = append(want, i)
				continue
			}
			at := rapid.IntRange(0, len(want)-1).Draw(t, "at")
			require.Equal(t, want[at], f.at(at))
			require.Equal(t, want[at], f.remove(at))
			want = append(want[:at], want[at+1:]...)
			require.Equal(t, fmt.Sprint(want), fmt.Sprint(collect(&f)))
		}
	})
}

func collect(f *fifo[int]) []int {
	out := []int{}
	for v := range f.all {
		out = append(out, v)
	}
	return out
}
