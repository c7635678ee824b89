package share_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/localstack/embedded/share"
)

func TestAloneLeavesSome(t *testing.T) {
	t.Parallel()
	for limit, alone := range map[int]int{1: 1, 2: 1, 3: 2, 8: 7, 16: 15, 17: 16, 18: 16, 64: 57, 72: 64, 2250: 2000} {
		assert.Equal(t, alone, share.Alone(limit), "of %d", limit)
		p := share.New(limit)
		got := 0
		for p.Try("a") {
			got++
		}
		assert.Equal(t, alone, got, "of %d", limit)
		assert.Equal(t, limit > 1, p.Try("b"), "of %d", limit)
		assert.Equal(t, p.Taken(), min(alone+1, limit))
	}
}

func TestWhy(t *testing.T) {
	t.Parallel()
	p := share.New(3)
	assert.Empty(t, p.Why("a", "a worker", "there are"))
	for range 2 {
		require.True(t, p.Try("a"))
	}
	assert.Equal(t, "It waits for a worker: 2 of the 3 there are are this workspace's, the rest is for others.", p.Why("a", "a worker", "there are"))
	assert.Empty(t, p.Why("b", "a worker", "there are"))
	require.True(t, p.Try("b"))
	assert.Equal(t, "It waits for a worker: all 3 there are are taken, 0 by this workspace. Who holds fewest gets the next.", p.Why("c", "a worker", "there are"))
	p.Release("a")
	assert.Empty(t, p.Why("c", "a worker", "there are"))
	assert.NotEmpty(t, p.Why("b", "a worker", "there are"), "the last is for who has none")
}

// TestFirst checks that First chooses the workspace with the fewest slots, the
// first of several, and that Changed signals when to try again.
func TestFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := share.New(4)
		first := func() int { return p.First(3, func(i int) string { return names[i] }) }
		for _, want := range []int{0, 1, 2, -1} {
			assert.Equal(t, want, first())
		}
		assert.Equal(t, -1, p.First(0, nil))
		require.Empty(t, p.Changed())
		p.Release("b")
		<-p.Changed()
		assert.Equal(t, 1, first())
		assert.Equal(t, -1, first())
		require.True(t, p.Try("d"))
		assert.Zero(t, p.Free())
		p.Release("d")
		<-p.Changed()
		assert.Equal(t, 1, p.Free())
		p.Take("a")
		p.Take("a")
		p.Release("a")
		require.Empty(t, p.Changed(), "nobody asked in vain since")
		assert.Equal(t, 4, p.Taken())
	})
}

// TestSlotsTakeTurns has workspaces take turns with a single slot.
func TestSlotsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := share.New(1)
		require.NoError(t, p.Acquire(t.Context(), "a"))
		order := make(chan string, 4)
		for _, who := range []string{"a 1", "a 2", "b 1", "b 2"} {
			go func() {
				assert.NoError(t, p.Acquire(t.Context(), who[:1]))
				order <- who
				p.Release(who[:1])
			}()
			synctest.Wait()
		}
		gone, cancel := context.WithCancelCause(t.Context())
		why := errors.New("gone")
		cancel(why)
		require.ErrorIs(t, p.Acquire(gone, "c"), why)
		p.Release("a")
		for _, want := range []string{"a 1", "b 1", "a 2", "b 2"} {
			assert.Equal(t, want, <-order)
		}
		synctest.Wait()
		assert.Zero(t, p.Taken())
	})
}

var names = []string{"a", "b", "c", "d", "e"}

// step is a random event: a workspace asks for a slot, releases one, or gives
// up waiting. A workspace with none to release stands for another.
type step struct{ what, who, which int }

// crowd is workspaces that take slots, wait for them and release them.
type crowd struct {
	*share.Slots
	limit   int
	held    map[string]int
	waiters map[string][]*waiter
	got     chan *waiter
	base    map[[2]string]int // maximum that the second may hold while the first waits without interruption
}

type waiter struct {
	workspace string
	cancel    context.CancelFunc
	gone      chan struct{} // closed when it gave up
}

func (c *crowd) play(s step) (wrong string) {
	who := names[s.who]
	switch {
	case s.what < 5:
		w := &waiter{workspace: who, gone: make(chan struct{})}
		var ctx context.Context
		ctx, w.cancel = context.WithCancel(context.Background())
		c.waiters[who] = append(c.waiters[who], w)
		go func() {
			if c.Acquire(ctx, who) == nil {
				c.got <- w
			} else {
				close(w.gone)
			}
		}()
	case s.what < 9:
		if who = next(s.who, func(who string) bool { return c.held[who] > 0 }); who != "" {
			c.held[who]--
			c.Release(who)
		}
	default:
		if who = next(s.who, func(who string) bool { return len(c.waiters[who]) > 0 }); who != "" {
			w := c.waiters[who][s.which%len(c.waiters[who])]
			w.cancel()
			<-w.gone
			c.drop(w)
		}
	}
	synctest.Wait()
	return c.check()
}

// next returns the first workspace, starting with one, for which holds is true,
// or "".
func next(from int, holds func(string) bool) string {
	for i := range names {
		if who := names[(from+i)%len(names)]; holds(who) {
			return who
		}
	}
	return ""
}

func (c *crowd) drop(w *waiter) {
	c.waiters[w.workspace] = slices.DeleteFunc(c.waiters[w.workspace], func(other *waiter) bool { return other == w })
}

// check records who got a slot, and returns what violates the guarantees.
func (c *crowd) check() (wrong string) {
	for len(c.got) > 0 {
		w := <-c.got
		c.drop(w)
		w.cancel()
		c.held[w.workspace]++
	}
	taken := 0
	for _, n := range c.held {
		taken += n
	}
	free := c.limit - taken
	if free < 0 || c.Taken() != taken {
		return fmt.Sprintf("%d of %d are held, %d taken", taken, c.limit, c.Taken())
	}
	for _, who := range names {
		waits := len(c.waiters[who]) > 0
		switch {
		case waits && c.held[who] == 0 && free > 0:
			return fmt.Sprintf("%s has none and waits, and %d are free", who, free)
		case waits && free > 1 && 9*free > c.limit:
			return fmt.Sprintf("%s waits, and %d of %d are free", who, free, c.limit)
		}
		for _, other := range names {
			pair, fair := [2]string{who, other}, max(c.held[other], c.held[who]+1)
			before, waited := c.base[pair]
			switch {
			case !waits:
				delete(c.base, pair)
			case !waited:
				c.base[pair] = fair
			// Work that had begun may continue, but it gets no more of the released
			// slots.
			case c.held[other] > max(before, c.held[who]+1):
				return fmt.Sprintf("%s waits with %d, and %s went from %d to %d", who, c.held[who], other, before, c.held[other])
			default:
				c.base[pair] = min(before, fair)
			}
		}
	}
	return ""
}

// TestSlotsAreShared checks that no workspace without a slot waits while one
// is free, that all slots but the reserve are used while any workspace waits,
// and that no waiting workspace is overtaken by one that holds more.
func TestSlotsAreShared(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(1, 40).Draw(rt, "limit")
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{rapid.IntRange(0, 9).Draw(rt, "what"), rapid.IntRange(0, len(names)-1).Draw(rt, "who"), rapid.IntRange(0, 99).Draw(rt, "which")}
		}), 1, 200).Draw(rt, "steps")
		wrong := ""
		synctest.Test(t, func(*testing.T) {
			c := &crowd{
				Slots: share.New(limit), limit: limit, held: map[string]int{}, waiters: map[string][]*waiter{},
				got: make(chan *waiter, len(steps)), base: map[[2]string]int{},
			}
			for i := 0; i < len(steps) && wrong == ""; i++ {
				wrong = c.play(steps[i])
			}
			for _, waiters := range c.waiters {
				for _, w := range waiters {
					w.cancel()
				}
			}
		})
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}
