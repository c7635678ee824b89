package pebblequeue

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/store"
	"millrace/shared/clock"
	"millrace/shared/queue"
)

// crash opens the queues of a file, hands them to run and goes away without
// closing them first.
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

// TestRestartOfDefinitions keeps the messages of a queue while it is undefined.
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

// TestPoison delivers a message that ends the process each time: it is moved
// after MaxReceives deliveries, and a message nobody receives never is.
func TestPoison(t *testing.T) {
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
