package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/shared/platform/table"
)

// openMemory opens an in-memory store for a test.
func openMemory(t testing.TB) *DB {
	t.Helper()
	db, err := OpenMemory()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// set commits one key.
func set(ctx context.Context, db *DB, key, value string) error {
	return db.Commit(ctx, func(b *Batch) error { return b.Set([]byte(key), []byte(value)) })
}

func get1(t testing.TB, db *DB, key string) (string, bool) {
	t.Helper()
	value, found, err := db.Get(t.Context(), []byte(key))
	require.NoError(t, err)
	return value, found
}

func TestCommitIsAllOrNothing(t *testing.T) {
	t.Parallel()
	db := openMemory(t)
	require.NoError(t, set(t.Context(), db, "a", "1"))
	failed := errors.New("refused")
	err := db.Commit(t.Context(), func(b *Batch) error {
		value, found, err := b.Get([]byte("a"))
		require.NoError(t, err)
		assert.True(t, found)
		assert.Equal(t, "1", value)
		require.NoError(t, b.Set([]byte("a"), []byte("2")))
		_, found, err = b.Get([]byte("b"))
		require.NoError(t, err)
		assert.False(t, found)
		return failed
	})
	require.ErrorIs(t, err, failed)
	value, _ := get1(t, db, "a")
	assert.Equal(t, "1", value)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, set(ended, db, "a", "3"), context.Canceled)
	require.NoError(t, db.Commit(t.Context(), func(*Batch) error { return nil }), "an empty commit is one")
	assert.EqualValues(t, 1, db.Commits())
}

// TestCommitsAreSerial checks that what a commit has read still holds when it
// is written.
func TestCommitsAreSerial(t *testing.T) {
	t.Parallel()
	db := openMemory(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				err := db.Commit(t.Context(), func(b *Batch) error {
					value, _, err := b.Get([]byte("n"))
					if err != nil {
						return err
					}
					n := 0
					_, _ = fmt.Sscan(value, &n)
					return b.Set([]byte("n"), fmt.Append(nil, n+1))
				})
				assert.NoError(t, err)
			}
		})
	}
	wg.Wait()
	value, _ := get1(t, db, "n")
	assert.Equal(t, "1600", value)
}

// TestViewIsSnapshot: keys that are always changed together never differ in a
// view.
func TestViewIsSnapshot(t *testing.T) {
	t.Parallel()
	db := openMemory(t)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			_ = db.Commit(ctx, func(b *Batch) error {
				return errors.Join(b.Set([]byte("left"), fmt.Append(nil, i)), b.Set([]byte("right"), fmt.Append(nil, i)))
			})
		}
	})
	for range 500 {
		require.NoError(t, db.View(t.Context(), func(r *Reader) error {
			left, _, err := r.Get([]byte("left"))
			require.NoError(t, err)
			right, _, err := r.Get([]byte("right"))
			require.NoError(t, err)
			assert.Equal(t, left, right)
			return nil
		}))
	}
	cancel()
	wg.Wait()
}

// slowLog is a file system with slow writes to logs.
type slowLog struct {
	vfs.FS
	held chan struct{} // closed when writes may proceed
	once sync.Once
	hit  chan struct{} // closed when a write waits
}

func (s *slowLog) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.Create(name, category)
	return &slowFile{f, s, filepath.Ext(name) == ".log"}, err
}

type slowFile struct {
	vfs.File
	fs  *slowLog
	log bool
}

func (f *slowFile) Write(p []byte) (int, error) {
	if f.log {
		f.fs.once.Do(func() { close(f.fs.hit) })
		<-f.fs.held
	}
	return f.File.Write(p)
}

// TestUndurableWritesAreNotDisclosed: a read and a rejected commit that saw a
// commit whose log record is not written yet wait until it is.
func TestUndurableWritesAreNotDisclosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fs := &slowLog{FS: vfs.NewMem(), held: make(chan struct{}), hit: make(chan struct{})}
		db, err := Open("store", Options{FS: fs})
		require.NoError(t, err)
		done := make(chan string, 4)
		go func() {
			assert.NoError(t, set(t.Context(), db, "a", "1"))
			done <- "write"
		}()
		<-fs.hit
		go func() {
			value, found, err := db.Get(t.Context(), []byte("a"))
			assert.NoError(t, err)
			assert.True(t, found)
			assert.Equal(t, "1", value)
			done <- "read"
		}()
		go func() {
			assert.NoError(t, db.Scan(t.Context(), []byte("a"), []byte("b"), false, func(_, _ []byte) (bool, error) { return true, nil }))
			done <- "scan"
		}()
		go func() {
			err := db.Commit(t.Context(), func(b *Batch) error {
				if _, found, err := b.Get([]byte("a")); err != nil || found {
					return errors.New("it is there")
				}
				return nil
			})
			assert.Error(t, err)
			done <- "refusal"
		}()
		synctest.Wait()
		assert.Empty(t, done, "the log record is not written")
		close(fs.held)
		for range cap(done) {
			<-done
		}
		require.NoError(t, db.Close())
	})
}

func TestScanKeepsToItsBounds(t *testing.T) {
	t.Parallel()
	db := openMemory(t)
	for _, key := range []string{"a", "b", "c", "d"} {
		require.NoError(t, set(t.Context(), db, key, key))
	}
	for _, c := range []struct {
		lower, upper string
		reverse      bool
		stop         string
		want         string
	}{
		{"a", "e", false, "", "abcd"}, {"a", "e", true, "", "dcba"}, {"b", "d", false, "", "bc"},
		{"b", "d", true, "", "cb"}, {"a", "e", false, "b", "ab"}, {"x", "y", false, "", ""},
	} {
		got := ""
		require.NoError(t, db.Scan(t.Context(), []byte(c.lower), []byte(c.upper), c.reverse, func(key, value []byte) (bool, error) {
			assert.Equal(t, key, value)
			got += string(key)
			return string(key) != c.stop, nil
		}))
		assert.Equal(t, c.want, got, "%+v", c)
	}
	failed := errors.New("enough")
	require.ErrorIs(t, db.Scan(t.Context(), []byte("a"), []byte("e"), false, func(_, _ []byte) (bool, error) { return true, failed }), failed)
}

// TestSyncLater checks that a commit whose durability is left to a later one is
// durable after that, and after anything that discloses it.
func TestSyncLater(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func(t *testing.T, db *DB){
		"nothing":      nil,
		"a commit":     func(t *testing.T, db *DB) { require.NoError(t, set(t.Context(), db, "b", "2")) },
		"a read":       func(t *testing.T, db *DB) { get1(t, db, "a") },
		"another read": func(t *testing.T, db *DB) { get1(t, db, "b") },
		"a wait":       func(_ *testing.T, db *DB) { db.Wait() },
		"a commit that writes nothing": func(t *testing.T, db *DB) {
			require.NoError(t, db.Commit(t.Context(), func(b *Batch) error {
				_, _, err := b.Get([]byte("a"))
				return err
			}))
		},
		"several reads": func(t *testing.T, db *DB) {
			var readers sync.WaitGroup
			for range 10 {
				readers.Go(func() { get1(t, db, "a") })
			}
			readers.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // which fails if a reader waits for ever
				fs := vfs.NewCrashableMem()
				db, err := Open("store", Options{FS: fs, FullSync: true, Simulated: true})
				require.NoError(t, err)
				defer func() { require.NoError(t, db.Close()) }()
				require.NoError(t, set(table.SyncLater(t.Context()), db, "a", "1"))
				if then != nil {
					then(t, db)
				}
				after, err := Open("store", Options{FS: fs.CrashClone(vfs.CrashCloneCfg{})})
				require.NoError(t, err)
				defer func() { require.NoError(t, after.Close()) }()
				_, found := get1(t, after, "a")
				assert.Equal(t, then != nil, found)
			})
		})
	}
}

// TestReadersSyncWhatIsLeft checks that readers who wait already when a commit's
// durability is left to a later one make it durable, for there may be no other.
func TestReadersSyncWhatIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := &durable{}
		db.cond.L = &db.mu
		seq := db.begin()
		var waits sync.WaitGroup
		for range 3 {
			waits.Go(func() { assert.False(t, db.wait(seq)) })
		}
		synctest.Wait()
		db.left(seq)
		waits.Wait()
		db.reached(seq)
		assert.True(t, db.wait(seq))
	})
}

// TestCommitLaterReachesLog without a following commit.
func TestCommitLaterReachesLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		db, err := Open("store", Options{FS: fs, FullSync: true})
		require.NoError(t, err)
		defer func() { require.NoError(t, db.Close()) }()
		require.NoError(t, db.CommitLater(t.Context(), func(b *Batch) error { return b.Set([]byte("a"), []byte("1")) }))
		value, found := get1(t, db, "a")
		assert.True(t, found)
		assert.Equal(t, "1", value)
		kept := func() bool {
			after, err := Open("store", Options{FS: fs.CrashClone(vfs.CrashCloneCfg{})})
			require.NoError(t, err)
			defer func() { require.NoError(t, after.Close()) }()
			_, found := get1(t, after, "a")
			return found
		}
		assert.False(t, kept())
		time.Sleep(2 * flushAfter)
		assert.True(t, kept())
	})
}

func TestStoreIsLockedByOneProcess(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	_, err := Open(dir, Options{ReadOnly: true})
	require.ErrorIs(t, err, os.ErrNotExist)
	db, err := Open(dir, Options{})
	require.NoError(t, err)
	require.NoError(t, set(t.Context(), db, "a", "1"))
	for _, o := range []Options{{}, {ReadOnly: true}} {
		_, err = Open(dir, o)
		require.ErrorIs(t, err, ErrInUse)
	}
	require.NoError(t, db.Close())
	require.NoError(t, os.Remove(filepath.Join(dir, "LOCK")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "LOCK"), 0o700))
	_, err = Open(dir, Options{})
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrInUse, "what cannot be locked is not in use")
	require.NoError(t, os.Remove(filepath.Join(dir, "LOCK")))
	require.NoError(t, db.Close(), "again it does nothing")
	require.ErrorIs(t, set(t.Context(), db, "a", "2"), ErrClosed)
	_, _, err = db.Get(t.Context(), []byte("a"))
	require.ErrorIs(t, err, ErrClosed)
	_, err = db.Iterator([]byte("a"), []byte("b"))
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, db.Checkpoint(t.Context(), dir+"2"), ErrClosed)

	read, err := Open(dir, Options{ReadOnly: true})
	require.NoError(t, err)
	value, _ := get1(t, read, "a")
	assert.Equal(t, "1", value)
	assert.False(t, read.flusher.Stop(), "there is nothing to flush, and no way to")
	require.NoError(t, read.Close())
}

// TestCheckpointIsSnapshot: a copy made during commits has a prefix of them,
// including at least those acknowledged before.
func TestCheckpointIsSnapshot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := Open(filepath.Join(dir, "store"), Options{memTable: 64 << 10})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	c := &chain{db: db}
	c.run(t, 4)
	c.atLeast(t, 1000)
	before := c.acknowledged()
	require.NoError(t, db.Checkpoint(t.Context(), filepath.Join(dir, "copy")))
	c.stop()
	again, err := Open(filepath.Join(dir, "copy"), Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, again.Close()) }()
	assert.GreaterOrEqual(t, length(t, again), before)
}

// TestFilesArePrivate, whatever the umask.
func TestFilesArePrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	db, err := Open(dir, Options{memTable: 64 << 10})
	require.NoError(t, err)
	c := &chain{db: db}
	c.run(t, 1)
	c.atLeast(t, 500)
	c.stop()
	require.NoError(t, db.Close())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	kinds := map[string]bool{}
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode(), e.Name())
		kinds[filepath.Ext(e.Name())] = true
	}
	assert.True(t, kinds[".sst"] && kinds[".log"], "tables were written: %v", kinds)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

// TestPartsKeepTheirOrder: keys of parts are ordered like their parts, one
// after the other, and can be split again.
func TestPartsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	part := rapid.StringOfN(rapid.SampledFrom([]rune{0, 1, 2, 'a', 'b', 0xfe, 0xff, 0x10ffff}), 0, 4, -1)
	rapid.Check(t, func(t *rapid.T) {
		a := [2]string{part.Draw(t, "a0"), part.Draw(t, "a1")}
		b := [2]string{part.Draw(t, "b0"), part.Draw(t, "b1")}
		ka, kb := AppendPart(AppendPart(nil, a[0]), a[1]), AppendPart(AppendPart(nil, b[0]), b[1])
		want := 0
		switch {
		case a[0] < b[0] || a[0] == b[0] && a[1] < b[1]:
			want = -1
		case a != b:
			want = 1
		}
		require.Equal(t, want, bytes.Compare(ka, kb))
		first, rest, ok := CutPart(ka)
		require.True(t, ok)
		require.Equal(t, a[0], first)
		second, rest, ok := CutPart(rest)
		require.True(t, ok)
		require.Equal(t, a[1], second)
		require.Empty(t, rest)
		prefix := AppendPart(nil, a[0])
		inside := bytes.Compare(prefix, kb) <= 0 && bytes.Compare(kb, After(prefix)) < 0
		require.Equal(t, a[0] == b[0], inside, "a prefix's keys are those between it and After")
	})
}

func FuzzCutPart(f *testing.F) {
	for _, s := range []string{"", "\x00", "\x00\x01", "a\x00\xffb\x00\x01c", "\x00\xff", "\x00\x02", "a\x00\x01"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		part, rest, ok := CutPart(key)
		if ok {
			require.Equal(t, key, append(AppendPart(nil, part), rest...))
		}
	})
}
