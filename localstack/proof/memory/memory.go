// Package memory opens the embedded server's drivers in memory, for tests and
// simulations. They are cheap and work inside a testing/synctest bubble.
// Nothing survives the test.
package memory

import (
	"context"

	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/pebblequeue"
	"millrace/localstack/embedded/pebbletable"
	"millrace/localstack/embedded/store"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
)

// T closes at the end of a test what was opened in it.
type T interface {
	require.TestingT
	Helper()
	Cleanup(func())
}

// Store opens an empty store.
func Store(t T) *store.DB {
	t.Helper()
	db, err := store.OpenMemory()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// Table opens an empty table; now determines what has expired.
func Table(t T, now clock.Clock) *pebbletable.Table {
	t.Helper()
	return pebbletable.New(Store(t), now)
}

// Queues opens empty queues and their dead-letter queues.
func Queues(t T, now clock.Clock, defs []queue.Definition) *pebblequeue.Queues {
	t.Helper()
	return QueuesIn(t, Store(t), now, defs)
}

// QueuesIn opens the queues of a store.
func QueuesIn(t T, db *store.DB, now clock.Clock, defs []queue.Definition) *pebblequeue.Queues {
	t.Helper()
	queues, err := pebblequeue.New(context.Background(), db, now, defs)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, queues.Close()) })
	return queues
}
