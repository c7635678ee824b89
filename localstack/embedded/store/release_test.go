package store

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReleasedBlocksAreReadAgain(t *testing.T) {
	t.Parallel()
	db, err := OpenMemory()
	require.NoError(t, err)
	require.NoError(t, set(t.Context(), db, "a", "1"))
	require.NoError(t, db.pebble.Flush())
	for range 2 { // and again
		value, _ := get1(t, db, "a")
		assert.Equal(t, "1", value)
		assert.Positive(t, db.cache.Size())
		db.Release()
		assert.Zero(t, db.cache.Size())
	}
	require.NoError(t, set(t.Context(), db, "a", "2"))
	value, _ := get1(t, db, "a")
	assert.Equal(t, "2", value)
	require.NoError(t, db.Close())
	db.Release()
}
