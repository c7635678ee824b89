package sqlqueue

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/store"
	"millrace/shared/clock"
	"millrace/shared/queue"
	"millrace/shared/queue/queuetest"
)

// open opens the queues of a file and closes them, and it, with the test.
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
		return open(t, filepath.Join(t.TempDir(), "queue.db"), defs...)
	})
}

// TestConformanceFromDisk runs the suite with no body in memory.
func TestConformanceFromDisk(t *testing.T) {
	t.Parallel()
	queuetest.Exercise(t, func(t *testing.T, defs ...queue.Definition) queue.Queues {
		qs := open(t, filepath.Join(t.TempDir(), "queue.db"), defs...)
		qs.budget = 0
		return qs
	})
}
