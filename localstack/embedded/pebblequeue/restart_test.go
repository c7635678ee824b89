package pebblequeue

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/space"
	"millrace/localstack/embedded/store"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
)

// crash opens the queues of a file, passes them to run and abandons them
// without closing.
func crash(t *testing.T, path string, run func(qs *Queues)) {
	t.Helper()
	db, err := store.Open(path, store.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	qs, err := New(t.Context(), db, clock.System{}, []queue.Definition{{Name: "q", Visibility: time.Hour}})
	require.NoError(t, err)
	defer func() {
		for _, l := range qs.lanes {
			l.close()
		}
	}()
	run(qs)
}

func TestRestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "queue")
	late := queue.Message{Body: []byte(`"late"`), Delay: queue.MaxDelay}
	held := queue.Message{Body: []byte(`"held"`), Group: "g"}
	ids := make(map[string]bool)
	var sent time.Time
	crash(t, path, func(qs *Queues) {
		send(t, qs, text("done"), held, late)
		for range 2 {
			d, _ := receive(t, qs, "q")
			ids[d.ID] = true
			if string(d.Body) == `"done"` {
				require.NoError(t, qs.Delete(t.Context(), "q", d.Receipt))
			}
			sent = d.Sent
		}
	})
	crash(t, path, func(qs *Queues) {
		stats, err := qs.Stats(t.Context(), "q")
		require.NoError(t, err)
		assert.Less(t, stats.Oldest, time.Minute)
		stats.Oldest = 0
		assert.Equal(t, queue.Stats{Visible: 1, Delayed: 1}, stats, "what was in flight is ready at once")
		d, _ := receive(t, qs, "q")
		assert.Equal(t, `"held"`, string(d.Body))
		assert.Equal(t, "g", d.Group)
		assert.Equal(t, 2, d.Receives)
		assert.Equal(t, sent, d.Sent)
		assert.True(t, ids[d.ID])
		send(t, qs, text("new"))
		d, _ = receive(t, qs, "q")
		assert.False(t, ids[d.ID], "ids are not used again")
		assert.Equal(t, 1, d.Receives)
	})
}

// TestRestartOfDefinitions checks that the messages of a queue survive while it
// is undefined.
func TestRestartOfDefinitions(t *testing.T) {
	t.Parallel()
	db, err := store.Open(filepath.Join(t.TempDir(), "queue"), store.Options{})
	require.NoError(t, err)
	defer db.Close()
	defs := []queue.Definition{{Name: "q", Visibility: time.Hour}}
	for _, step := range []struct {
		defs []queue.Definition
		run  func(qs *Queues)
	}{
		{defs, func(qs *Queues) { send(t, qs, text("a")) }},
		{nil, func(qs *Queues) {
			require.ErrorIs(t, qs.Send(t.Context(), "q", text("b")), queue.ErrUnknownQueue)
		}},
		{defs, func(qs *Queues) {
			d, _ := receive(t, qs, "q")
			assert.Equal(t, `"a"`, string(d.Body))
		}},
	} {
		qs, err := New(t.Context(), db, clock.System{}, step.defs)
		require.NoError(t, err)
		step.run(qs)
		require.NoError(t, qs.Close())
	}
}

// TestPoisonMessageIsMoved delivers a message that ends the process each time:
// it is moved after MaxReceives deliveries, and a message that is never
// received is not.
func TestPoisonMessageIsMoved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "queue")
	for n := range queue.MaxReceives {
		crash(t, path, func(qs *Queues) {
			if n == 0 {
				send(t, qs, text("poison"), text("patient"))
			}
			d, _ := receive(t, qs, "q")
			require.Equal(t, `"poison"`, string(d.Body))
			require.Equal(t, n+1, d.Receives)
		})
	}
	for range queue.MaxReceives {
		crash(t, path, func(*Queues) {})
	}
	crash(t, path, func(qs *Queues) {
		d, _ := receive(t, qs, "q")
		assert.Equal(t, `"patient"`, string(d.Body))
		assert.Equal(t, 2, d.Receives)
		d, _ = receive(t, qs, queue.Dead("q"))
		assert.Equal(t, `"poison"`, string(d.Body), "its turn came first")
	})
}

// TestRejectedSendHasNoEffect checks that a send rejected by a full disk
// changes neither the count of messages nor their numbers, now or after a
// restart.
func TestRejectedSendHasNoEffect(t *testing.T) {
	t.Parallel()
	free := uint64(1 << 20)
	watch := space.New(func() (uint64, uint64, error) { return free, 64 << 20, nil }, slog.New(slog.DiscardHandler))
	db, err := store.Open("store", store.Options{FS: vfs.NewMem(), Space: watch})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	visible := func(qs *Queues) int {
		stats, err := qs.Stats(t.Context(), "q")
		require.NoError(t, err)
		return stats.Visible
	}
	reopen := func() *Queues {
		qs, err := New(t.Context(), db, clock.System{}, []queue.Definition{{Name: "q", Visibility: time.Hour}})
		require.NoError(t, err)
		return qs
	}
	qs := reopen()
	require.ErrorIs(t, qs.Send(t.Context(), "q", text("refused")), space.ErrFull)
	assert.Zero(t, visible(qs))
	free = 50 << 20
	send(t, qs, text("a"))
	assert.Equal(t, 1, visible(qs))
	first, _ := receive(t, qs, "q")
	require.NoError(t, qs.Close())

	again := reopen()
	defer func() { require.NoError(t, again.Close()) }()
	assert.Equal(t, 1, visible(again))
	send(t, again, text("b"))
	second, _ := receive(t, again, "q")
	third, _ := receive(t, again, "q")
	assert.Equal(t, first.ID, second.ID)
	assert.NotEqual(t, first.ID, third.ID, "a number is not given twice")
}

// TestMessageIsDeletedOnce checks that a duplicate receipt in a request, and
// one of an earlier delivery, count once.
func TestMessageIsDeletedOnce(t *testing.T) {
	t.Parallel()
	qs := open(t, filepath.Join(t.TempDir(), "queue"), queue.Definition{Name: "q", Visibility: time.Hour})
	send(t, qs, text("a"), text("b"))
	first, _ := receive(t, qs, "q")
	require.NoError(t, qs.Extend(t.Context(), "q", 0, first.Receipt))
	_, _ = receive(t, qs, "q")
	again, _ := receive(t, qs, "q")
	require.NoError(t, qs.Delete(t.Context(), "q", again.Receipt, again.Receipt))
	require.NoError(t, qs.Delete(t.Context(), "q", again.Receipt))
	stats, err := qs.Stats(t.Context(), "q")
	require.NoError(t, err)
	assert.Equal(t, queue.Stats{InFlight: 1}, stats)
	assert.EqualValues(t, 1, qs.lanes["q"].total.Load())
}
