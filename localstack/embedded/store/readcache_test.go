package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func item(i int) []byte { return fmt.Appendf([]byte{ItemSpace}, "%d", i) }

// TestReadsReturnLastCommit reads cached keys before and after each commit, one
// by one and together.
func TestReadsReturnLastCommit(t *testing.T) {
	t.Parallel()
	db, err := OpenMemory()
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	const keys = 8
	all, want := make([][]byte, keys), make([]Value, keys)
	for i := range all {
		all[i] = item(i)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 2000 {
		i := random.IntN(keys)
		commit := db.Commit
		if random.IntN(2) == 0 {
			commit = db.CommitLater
		}
		switch random.IntN(4) {
		case 0:
			require.NoError(t, commit(t.Context(), func(b *Batch) error { want[i] = Value{}; return b.Delete(all[i]) }))
		case 1, 2:
			require.NoError(t, commit(t.Context(), func(b *Batch) error {
				want[i] = Value{strconv.Itoa(n) + strings.Repeat("x", random.IntN(2)*readBytes), true}
				return b.Set(all[i], []byte(want[i].Data))
			}))
		case 3:
			db.Release()
		}
		for range 2 {
			data, found, err := db.Get(t.Context(), all[i])
			require.NoError(t, err)
			require.Equal(t, want[i], Value{data, found})
			got, err := db.GetAll(t.Context(), all)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
}

// TestConcurrentReadsAreConsistent reads two keys that are always written
// together.
func TestConcurrentReadsAreConsistent(t *testing.T) {
	t.Parallel()
	db, err := OpenMemory()
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	keys := [][]byte{item(1), item(2)}
	write := func(n int) {
		assert.NoError(t, db.Commit(t.Context(), func(b *Batch) error {
			for _, key := range keys {
				if err := b.Set(key, strconv.AppendInt(nil, int64(n), 10)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	write(1)
	number := func(v string) int { n, err := strconv.Atoi(v); assert.NoError(t, err); return n }
	var done atomic.Bool
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for last := 0; !done.Load(); {
				both, err := db.GetAll(context.Background(), keys)
				assert.NoError(t, err)
				assert.Equal(t, both[0], both[1], "of one moment")
				second, _, err := db.Get(context.Background(), keys[1])
				assert.NoError(t, err)
				first, _, err := db.Get(context.Background(), keys[0])
				assert.NoError(t, err)
				assert.LessOrEqual(t, last, number(both[0].Data), "what was seen stays")
				assert.LessOrEqual(t, number(both[0].Data), number(second))
				if last = number(first); last < number(second) {
					assert.Fail(t, "a key is older than what was written with it")
				}
			}
		})
	}
	for n := range 3000 {
		write(n + 2)
	}
	done.Store(true)
	readers.Wait()
}

// TestAbsentKeysAreCached checks that a key that does not exist is looked for once
// until it is written.
func TestAbsentKeysAreCached(t *testing.T) {
	t.Parallel()
	db, err := OpenMemory()
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	cached := func(key []byte) bool { _, ok := db.reads.slot(key).get(key); return ok }
	_, found, err := db.Get(t.Context(), item(1))
	require.NoError(t, err)
	assert.False(t, found)
	assert.True(t, cached(item(1)))
	got, err := db.GetAll(t.Context(), [][]byte{item(1), item(2)})
	require.NoError(t, err)
	assert.Equal(t, make([]Value, 2), got)
	assert.True(t, cached(item(2)))
	require.NoError(t, db.Commit(t.Context(), func(b *Batch) error { return b.Set(item(2), []byte("x")) }))
	assert.False(t, cached(item(2)))
	got, err = db.GetAll(t.Context(), [][]byte{item(1), item(2)})
	require.NoError(t, err)
	assert.Equal(t, []Value{{}, {"x", true}}, got)
}

// TestReadsDuringCommit checks that a value that is read while a commit becomes
// visible may be the old one, and is not cached.
func TestReadsDuringCommit(t *testing.T) {
	t.Parallel()
	slot, key := &readSlot{}, item(1)
	cached := func() bool { _, ok := slot.get(key); return ok }
	slot.keep(slot.version.Load(), key, Value{Data: "old", Found: true})
	assert.True(t, cached())
	slot.begin()
	slot.begin() // another key with the same slot
	assert.False(t, cached())
	slot.keep(slot.version.Load(), key, Value{Data: "old", Found: true})
	assert.False(t, cached())
	during := slot.version.Load()
	slot.end()
	slot.end()
	slot.keep(during, key, Value{Data: "old", Found: true})
	assert.False(t, cached())
	slot.keep(slot.version.Load(), key, Value{Data: "new", Found: true})
	assert.True(t, cached())
}

// TestCachedReadOfClosedStore checks that it fails like any other read.
func TestCachedReadOfClosedStore(t *testing.T) {
	t.Parallel()
	db, err := OpenMemory()
	require.NoError(t, err)
	require.NoError(t, db.Commit(t.Context(), func(b *Batch) error { return b.Set(item(1), []byte("x")) }))
	for range 2 {
		_, found, err := db.Get(t.Context(), item(1))
		require.NoError(t, err)
		assert.True(t, found)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = db.Get(ended, item(1))
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, db.Close())
	_, _, err = db.Get(t.Context(), item(1))
	require.ErrorIs(t, err, ErrClosed)
	_, err = db.GetAll(t.Context(), [][]byte{item(1)})
	require.ErrorIs(t, err, ErrClosed)
}
