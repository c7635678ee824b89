package pebblequeue

import (
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/store"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/queue/queuetest"
)

// open opens the queues of a file and closes both at the end of the test.
func open(t testing.TB, path string, defs ...queue.Definition) *Queues {
	t.Helper()
	db, err := store.Open(path, store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	qs, err := New(t.Context(), db, clock.System{}, defs)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, qs.Close()) })
	return qs
}

func TestConformance(t *testing.T) {
	t.Parallel()
	queuetest.Exercise(t, func(t *testing.T, defs ...queue.Definition) queue.Queues {
		return open(t, filepath.Join(t.TempDir(), "queue"), defs...)
	})
}

func TestNewRejectsInvalidDefinitions(t *testing.T) {
	t.Parallel()
	db, err := store.Open(filepath.Join(t.TempDir(), "queue"), store.Options{})
	require.NoError(t, err)
	defer db.Close()
	def := queue.Definition{Name: "a", Visibility: time.Second}
	_, err = New(t.Context(), db, clock.System{}, []queue.Definition{def, def})
	require.ErrorContains(t, err, "twice")
	_, err = New(t.Context(), db, clock.System{}, []queue.Definition{{Name: "a-dead", Visibility: time.Second}})
	require.ErrorIs(t, err, queue.ErrLimit)
}

// TestBacklog receives a backlog in order, without keeping it in memory.
func TestBacklog(t *testing.T) {
	t.Parallel()
	qs := open(t, filepath.Join(t.TempDir(), "queue"), queue.Definition{Name: "q", Visibility: time.Minute})
	msgs := make([]queue.Message, 5000)
	for i := range msgs {
		msgs[i].Body = fmt.Appendf(nil, `{"n":%03d}`, i)
	}
	require.NoError(t, qs.Send(t.Context(), "q", msgs...))
	l := qs.lanes["q"]
	for i := 0; i < len(msgs); {
		ds, err := qs.Receive(t.Context(), "q", 7, 0)
		require.NoError(t, err)
		require.NotEmpty(t, ds)
		require.Len(t, l.held, len(ds))
		for _, d := range ds {
			require.Equal(t, string(msgs[i].Body), string(d.Body))
			require.NoError(t, qs.Delete(t.Context(), "q", d.Receipt))
			i++
		}
	}
	assert.Empty(t, l.held)
	assert.Empty(t, l.timed)
	stats, err := qs.Stats(t.Context(), "q")
	require.NoError(t, err)
	assert.Zero(t, stats)
}

func TestCloseEndsReceivers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		qs := open(t, filepath.Join(t.TempDir(), "queue"), queue.Definition{Name: "q", Visibility: time.Minute})
		errs := make(chan error, 3)
		for range cap(errs) {
			go func() {
				_, err := qs.Receive(t.Context(), "q", 1, queue.MaxWait)
				errs <- err
			}()
		}
		synctest.Wait()
		require.NoError(t, qs.Close())
		for range cap(errs) {
			require.ErrorIs(t, <-errs, ErrClosed)
		}
		_, err := qs.Receive(t.Context(), "q", 1, 0)
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, qs.Delete(t.Context(), "q", "q/1.1.1."), ErrClosed)
		require.ErrorIs(t, qs.Send(t.Context(), "q", queue.Message{Body: []byte("1")}), ErrClosed)
	})
}

func FuzzParseReceipt(f *testing.F) {
	for _, s := range []string{"q/1.1.1.", "q/zz9.10.zz.g.h", "q", "q/", "q/....", "q/-1.1.1.", "q/1.-1.1.", "qq/1.1.1.", "q/1.1", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, receives, ok := parseReceipt("q", s)
		if !ok {
			return
		}
		receipt, id := formatReceipt("q", p, receives)
		p2, receives2, ok := parseReceipt("q", receipt)
		require.True(t, ok)
		require.Equal(t, p, p2)
		require.Equal(t, receives, receives2)
		require.NotEmpty(t, id)
	})
}
