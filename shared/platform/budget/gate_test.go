package budget

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/errs"
	"millrace/shared/platform/telemetry"
)

func single() *gate { return newGate(func() int { return 1 }) }

// of returns a context for work of a workspace.
func of(t *testing.T, workspace string) context.Context {
	return telemetry.With(t.Context(), &telemetry.Subject{Workspace: workspace})
}

// work returns a budget that takes its turns from g.
func work(ctx context.Context, g *gate) *Budget {
	b, _ := New(ctx, Limits{Steps: math.MaxInt64, Bytes: math.MaxInt64})
	b.gate = g
	return b
}

// TestWorkspacesTakeTurns checks that a workspace waits for one piece of work
// of each other workspace, however many those have in line.
func TestWorkspacesTakeTurns(t *testing.T) {
	t.Parallel()
	g := single()
	require.Nil(t, g.enter("a"))
	line := map[string]chan struct{}{}
	for _, w := range []string{"a", "b", "c"} {
		n := map[string]int{"a": 4, "b": 1, "c": 2}[w]
		for i := range n {
			line[fmt.Sprint(w, i)] = g.enter(w)
		}
	}
	var order []string
	for len(line) > 0 {
		g.release()
		for name, turn := range line {
			select {
			case <-turn:
				order = append(order, name)
				delete(line, name)
			default:
			}
		}
	}
	assert.Equal(t, []string{"a0", "b0", "c0", "a1", "c1", "a2", "a3"}, order)
	g.release()
	assert.Equal(t, 1, g.free)
	assert.Empty(t, g.line)
}

// TestCancelledWaiterLeavesLine checks that work that gives up does not block
// others, even if its turn comes at that moment.
func TestCancelledWaiterLeavesLine(t *testing.T) {
	t.Parallel()
	g := single()
	require.NoError(t, g.acquire(t.Context(), "a"))
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	require.Equal(t, gone, g.acquire(ctx, "b"))
	assert.Empty(t, g.line)
	turn := g.enter("b")
	g.release()
	<-turn
	assert.False(t, g.leave("b", turn), "it has its turn")
	g.release()
	require.NoError(t, g.acquire(t.Context(), "c"))
}

// TestLongWorkWaitsForItsTurn checks that short work proceeds without a turn.
func TestLongWorkWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := single()
		first, second := work(of(t, "a"), g), work(of(t, "b"), g)
		require.NoError(t, first.Spend(allowance))
		require.NoError(t, second.Spend(allowance-1), "this is short")
		done := false
		go func() {
			assert.NoError(t, second.Spend(quantum))
			done = true
			second.end()
		}()
		synctest.Wait()
		require.False(t, done)
		require.NoError(t, first.Spend(quantum), "it goes behind the other one")
		synctest.Wait()
		assert.True(t, done)
		first.end()
		assert.Equal(t, 1, g.free)
	})
}

// TestRestReleasesTurn checks that work has no turn between Rest and its next
// Spend, and has one again afterwards.
func TestRestReleasesTurn(t *testing.T) {
	t.Parallel()
	g := single()
	b := work(of(t, "a"), g)
	require.NoError(t, b.Hold())
	require.Zero(t, g.free, "work that charges nothing has a turn")
	require.NoError(t, b.Hold())
	b.Rest()
	require.Equal(t, 1, g.free)
	require.NoError(t, b.Spend(1))
	assert.Zero(t, g.free)
	b.end()
	b.Rest()
	require.NoError(t, b.Spend(1))
	assert.Equal(t, 1, g.free, "it is short again")
}

// TestRequestWaitsAtMost15Seconds checks the bound on all waits of a request
// together, and the error with its retry delay. Work without that bound keeps
// waiting.
func TestRequestWaitsAtMost15Seconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := single()
		ctx, end := WithWaitLimit(of(t, "a"))
		defer end()
		b := work(ctx, g)
		for range 2 {
			require.NoError(t, g.acquire(t.Context(), "b"))
			time.AfterFunc(6*time.Second, g.release)
			require.NoError(t, b.Hold())
			b.end()
			time.Sleep(time.Minute) // of work
		}
		require.NoError(t, g.acquire(t.Context(), "b"))
		defer g.release()
		began := time.Now()
		err := b.Hold()
		assert.Equal(t, 3*time.Second, time.Since(began))
		busy, ok := errors.AsType[*errs.Error](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, errs.Unavailable, busy.Code)
		assert.Positive(t, busy.RetryAfter)
		assert.Equal(t, err, context.Cause(ctx))
		assert.Empty(t, g.line)

		task, cancel := context.WithTimeout(of(t, "a"), time.Hour)
		defer cancel()
		require.ErrorIs(t, work(task, g).Hold(), context.DeadlineExceeded)
		assert.Equal(t, 3*time.Second+time.Hour, time.Since(began))
	})
}
