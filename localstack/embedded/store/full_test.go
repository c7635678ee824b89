package store

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/space"
	"millrace/shared/platform/table"
)

// fullFS is an in-memory file system that can be full.
type fullFS struct {
	vfs.FS
	full    atomic.Bool
	refused chan struct{} // receives when something was refused
	tries   atomic.Int64  // number of refusals
	creates bool          // names can still be created, only contents cannot
}

func (f *fullFS) check(op string) error {
	if !f.full.Load() {
		return nil
	}
	f.tries.Add(1)
	select {
	case f.refused <- struct{}{}:
	default:
	}
	return fmt.Errorf("%s: %w", op, syscall.ENOSPC)
}

func (f *fullFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if !f.creates {
		if err := f.check("create"); err != nil {
			return nil, err
		}
	}
	file, err := f.FS.Create(name, category)
	return &fullFile{file, f}, err
}

type fullFile struct {
	vfs.File
	fs *fullFS
}

// Write fails while the file system is full.
func (f *fullFile) Write(p []byte) (int, error) {
	if err := f.fs.check("write"); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

// TestCommitsWaitForDiskSpace checks that commits wait until there is space,
// where Pebble would end the process, and that nothing is lost, whichever log
// or table was being written. Pebble holds locks meanwhile, so the time is
// real.
func TestCommitsWaitForDiskSpace(t *testing.T) {
	t.Parallel()
	fs := &fullFS{FS: vfs.NewMem(), refused: make(chan struct{}, 1)}
	o := Options{FS: fs, memTable: 64 << 10, Log: slog.New(slog.DiscardHandler)}
	db, err := Open("store", o)
	require.NoError(t, err)
	c, rng := &chain{db: db}, rand.New(rand.NewPCG(1, 1))
	for range 8 {
		for range 100 { // one or two logs and tables
			require.NoError(t, c.link(t.Context(), rng))
		}
		before := c.acknowledged()
		fs.full.Store(true)
		done := make(chan error, 1)
		go func() {
			var err error
			for range 100 {
				err = errors.Join(err, c.link(t.Context(), rng))
			}
			done <- err
		}()
		for range 2 { // it is retried
			<-fs.refused
		}
		assert.LessOrEqual(t, c.acknowledged(), before, "nothing is acknowledged that is not written")
		fs.full.Store(false)
		require.NoError(t, <-done)
	}
	require.NoError(t, db.Close())
	db, err = Open("store", o)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, length(t, db), c.acknowledged())
	require.NoError(t, db.Close())
}

// TestFullDiskIsRetriedWithPauses checks that a table that cannot be written
// keeps neither the disk nor the log busy.
func TestFullDiskIsRetriedWithPauses(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	fs := &fullFS{FS: vfs.NewMem(), refused: make(chan struct{}, 1), creates: true}
	o := Options{FS: fs, Log: slog.New(slog.NewTextHandler(&out, nil))}
	db, err := Open("store", o)
	require.NoError(t, err)
	require.NoError(t, set(t.Context(), db, "a", strings.Repeat("v", 64<<10)))
	require.NoError(t, db.Close())
	fs.full.Store(true)
	done := make(chan error, 1)
	go func() { // moves the log into a table
		var err error
		db, err = Open("store", o)
		done <- err
	}()
	<-fs.refused
	time.Sleep(10 * retryPause)
	assert.Less(t, fs.tries.Load(), int64(40))
	fs.full.Store(false)
	require.NoError(t, <-done)
	require.NoError(t, db.Close())
	assert.Equal(t, 1, strings.Count(out.String(), "level=ERROR"), out.String())
}

// TestNearlyFullDiskRejectsCommits, but not those that free space, and only as
// long as it is nearly full.
func TestNearlyFullDiskRejectsCommits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		free := uint64(50 << 20)
		watch := space.New(func() (uint64, uint64, error) { return free, 64 << 20, nil }, slog.New(slog.DiscardHandler))
		db, err := Open("store", Options{FS: vfs.NewMem(), Simulated: true, Space: watch})
		require.NoError(t, err)
		require.NoError(t, set(t.Context(), db, "a", "1"))
		free = 5 << 20
		time.Sleep(time.Second)
		require.ErrorIs(t, set(t.Context(), db, "a", "2"), space.ErrFull)
		value, _ := get1(t, db, "a")
		assert.Equal(t, "1", value, "a refused commit changes nothing")
		require.NoError(t, set(table.Reclaiming(t.Context()), db, "a", "3"))
		require.NoError(t, db.CommitLater(t.Context(), func(b *Batch) error { return b.Delete([]byte("a")) }))
		free = 50 << 20
		time.Sleep(time.Second)
		require.NoError(t, set(t.Context(), db, "a", "4"))
		require.NoError(t, db.Close())
	})
}
