package pebblequeue

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/store"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
)

// grave is queues on a manual clock, and the dead letters they reported.
type grave struct {
	*Queues
	t   *testing.T
	db  *store.DB
	mu  sync.Mutex // guards the two fields below
	now time.Time
	got []DeadLetter
}

func newGrave(t *testing.T) *grave {
	db, err := store.OpenMemory()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	g := &grave{t: t, db: db, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	g.open()
	return g
}

func (g *grave) open() {
	var err error
	g.Queues, err = New(g.t.Context(), g.db, clock.Func(func() time.Time {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.now
	}), []queue.Definition{{Name: "q", Visibility: time.Hour}})
	require.NoError(g.t, err)
	g.Watch(func(d DeadLetter) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.got = append(g.got, d)
	})
}

func (g *grave) pass(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now = g.now.Add(d)
}

// kill sends n messages and delivers each until it is dead.
func (g *grave) kill(from, n int) {
	g.t.Helper()
	for i := range n {
		require.NoError(g.t, g.Send(g.t.Context(), "q", queue.Message{Body: fmt.Appendf(nil, "%d", from+i), Group: "g"}))
		for range queue.MaxReceives {
			ds, err := g.Receive(g.t.Context(), "q", 1, 0)
			require.NoError(g.t, err)
			require.Len(g.t, ds, 1)
			require.NoError(g.t, g.Extend(g.t.Context(), "q", 0, ds[0].Receipt))
		}
	}
}

// dead returns the number of stored dead letters.
func (g *grave) dead() int {
	g.t.Helper()
	n, err := g.Depth(g.t.Context(), queue.Dead("q"))
	require.NoError(g.t, err)
	return n
}

func TestDeadLettersAreReported(t *testing.T) {
	t.Parallel()
	g := newGrave(t)
	sent := g.now
	g.kill(7, 1)
	require.NoError(t, g.Close()) // waits for pending reports
	assert.Equal(t, []DeadLetter{{Queue: "q", Group: "g", Sent: sent, Receives: queue.MaxReceives, Body: []byte("7"), Kept: true}}, g.got)
}

func TestDeadLettersExpire(t *testing.T) {
	t.Parallel()
	g := newGrave(t)
	g.kill(0, 2)
	g.pass(time.Hour)
	g.kill(2, 1)
	require.NoError(t, g.Send(t.Context(), "q", queue.Message{Body: []byte("8")}))
	sweep := func() int {
		n, err := g.Sweep(t.Context())
		require.NoError(t, err)
		return n
	}
	g.pass(DeadLife - time.Hour - time.Second)
	assert.Zero(t, sweep())
	ds, err := g.Receive(t.Context(), queue.Dead("q"), 1, 0) // one is in flight
	require.NoError(t, err)
	require.Equal(t, "0", string(ds[0].Body))
	g.pass(time.Second)
	assert.Equal(t, 1, sweep(), "what is in flight stays")
	g.pass(time.Hour)
	assert.Equal(t, 2, sweep(), "what was in flight is ready again and goes, as does the last")
	assert.Zero(t, g.dead())
	assert.Zero(t, sweep())

	ready, err := g.Depth(t.Context(), "q")
	require.NoError(t, err)
	assert.Equal(t, 1, ready, "only dead letters expire")
	require.NoError(t, g.Close())
	g.open()
	defer func() { require.NoError(t, g.Close()) }()
	assert.Zero(t, g.dead())
	ds, err = g.Receive(t.Context(), queue.Dead("q"), 1, 0)
	require.NoError(t, err)
	assert.Empty(t, ds)
	ready, err = g.Depth(t.Context(), "q")
	require.NoError(t, err)
	assert.Equal(t, 1, ready)
}

func TestDeadLettersAreBounded(t *testing.T) {
	t.Parallel()
	g := newGrave(t)
	g.kill(0, MaxDead+3)
	assert.Equal(t, MaxDead, g.dead())
	ready, err := g.Depth(t.Context(), "q")
	require.NoError(t, err)
	assert.Zero(t, ready)
	require.NoError(t, g.Close())
	require.Len(t, g.got, MaxDead+3)
	lost := 0
	for _, d := range g.got {
		if !d.Kept {
			lost++
			assert.Contains(t, []string{"1000", "1001", "1002"}, string(d.Body), "the first ones are kept")
		}
	}
	assert.Equal(t, 3, lost)
}
