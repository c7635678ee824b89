package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// quiet never folds by itself and logs nothing.
var quiet = Options{FoldAfter: time.Hour, Log: slog.New(slog.DiscardHandler)}

// journaling changes the journal between two groups.
func journaling(db *DB, change func(j *journal)) {
	db.commits.group.Lock()
	defer db.commits.group.Unlock()
	change(&db.commits.journal)
}

// TestGroupThatCannotBeWritten refuses what may be lost, and takes what comes
// after it: that, and nothing else, is found after a kill, even if the file has
// what was refused.
func TestGroupThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	faults := map[string]func(j *journal){
		"write fails": func(j *journal) { _ = j.file.Close() },
		"sync fails": func(j *journal) {
			j.sync = func(*os.File) error { j.sync = nil; return syscall.EIO }
		},
		"sync fails and the file cannot be cut": func(j *journal) {
			j.sync = func(f *os.File) error { j.sync = nil; return errors.Join(syscall.EIO, f.Close()) }
		},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := openAt(t, filepath.Join(t.TempDir(), "store.db"), quiet)
			w := attach(t, db, "words")
			require.NoError(t, w.count("a"))
			w.fail = 1 // it must not take a fold
			journaling(db, fault)
			require.Error(t, w.count("refused"))
			assert.Zero(t, w.seen("refused"), "what is not kept is not seen")
			require.NoError(t, w.count("a"))
			require.NoError(t, w.count("b"))

			again := openAt(t, killed(t, db.Path()), quiet)
			attach(t, again, "words")
			assert.Equal(t, map[string]int{"a": 2, "b": 1}, stored(t, again))

			require.Error(t, db.Sync())
			require.NoError(t, db.Sync())
			assert.Equal(t, map[string]int{"a": 2, "b": 1}, stored(t, db))
			assert.Empty(t, redo(t, db.Path()), "no file is left")
		})
	}
}

// TestFirstGroupThatCannotBeWritten has no journal yet.
func TestFirstGroupThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	db := openAt(t, filepath.Join(t.TempDir(), "store.db"), quiet)
	w := attach(t, db, "words")
	synced := map[string]int{}
	failed := map[string]bool{}
	journaling(db, func(j *journal) {
		j.sync = func(f *os.File) error {
			synced[f.Name()]++
			if !failed[f.Name()] {
				failed[f.Name()] = true
				return syscall.EIO
			}
			return nil
		}
	})
	dir := filepath.Dir(db.Path())
	require.ErrorIs(t, w.count("a"), syscall.EIO, "the directory is not on the disk")
	require.ErrorIs(t, w.count("a"), syscall.EIO, "nor the file")
	assert.Empty(t, redo(t, db.Path()), "a file of nothing is removed")
	failed[db.Path()+".redo.2"] = true
	require.NoError(t, w.count("a"))
	assert.Equal(t, map[string]int{dir: 3, db.Path() + ".redo.1": 1, db.Path() + ".redo.2": 1}, synced, "each file's name is made durable")

	require.NoError(t, db.Sync())
	require.NoError(t, os.WriteFile(db.Path()+".redo.3", nil, 0o600)) // in the way
	journaling(db, func(j *journal) { j.sync = nil })
	require.Error(t, w.count("b"))
	require.NoError(t, w.count("b"))
}

// TestRefusedGroupTakesItsReadersAlong refuses also what has only looked at what
// is refused.
func TestRefusedGroupTakesItsReadersAlong(t *testing.T) {
	t.Parallel()
	db := openAt(t, filepath.Join(t.TempDir(), "store.db"), quiet)
	w := attach(t, db, "words")
	require.NoError(t, w.count("a"))
	looked := 0
	journaling(db, func(j *journal) {
		j.sync = func(*os.File) error { j.sync = nil; return syscall.EIO }
	})
	errs := held(t, db, w,
		func() error { return w.count("a") },
		func() error {
			return w.log.Commit(t.Context(), func(record []byte) ([]byte, error) {
				looked = w.staged["a"]
				return record, nil
			})
		},
	)
	assert.Equal(t, 2, looked)
	assert.ErrorIs(t, errs[0], syscall.EIO)
	assert.ErrorIs(t, errs[1], syscall.EIO)
}

// frames writes a journal's file of groups of one record each.
func frames(t *testing.T, path string, file int, owner string, groups ...int64) {
	t.Helper()
	j := &journal{path: path + ".redo.", number: file}
	for _, n := range groups {
		frame := binary.AppendUvarint(make([]byte, frameHeader), uint64(n))
		frame, err := appendRecord(frame, owner, func(b []byte) ([]byte, error) { return fmt.Appendf(b, "of-group-%d x", n), nil })
		require.NoError(t, err)
		require.NoError(t, j.write(frame))
	}
	require.NoError(t, j.file.Close())
}

// TestNothingBehindAGapComesBack starts behind a gap, as a power cut may leave,
// with one of two owners, and is killed once its group numbers have come to those
// behind the gap.
func TestNothingBehindAGapComesBack(t *testing.T) {
	t.Parallel()
	for _, fold := range []bool{false, true} {
		t.Run(fmt.Sprint("fold=", fold), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "store.db")
			frames(t, path, 0, "second", 1, 2)
			frames(t, path, 1, "second", 5, 6)
			frames(t, path, 2, "first", 7)
			db := openAt(t, path, quiet)
			w := attach(t, db, "first")
			for range 2 {
				require.NoError(t, w.count("new"))
			}
			if fold {
				require.NoError(t, db.Sync())
				require.NoError(t, w.count("new"))
			}
			again := openAt(t, killed(t, path), quiet)
			attach(t, again, "first")
			attach(t, again, "second")
			assert.Equal(t, map[string]int{"of-group-1": 1, "of-group-2": 1, "new": w.seen("new")}, stored(t, again))
			assert.Empty(t, redo(t, again.Path()))
		})
	}
}

// TestJournalIsRemovedAfterItsFoldIsOnTheDisk is killed when a fold is committed
// to SQLite's log, which no sync has reached maybe: the next process syncs the
// log before it removes the journal. What it has synced is in the database's own
// file.
func TestJournalIsRemovedAfterItsFoldIsOnTheDisk(t *testing.T) {
	t.Parallel()
	db := openAt(t, filepath.Join(t.TempDir(), "store.db"), quiet)
	w := attach(t, db, "words")
	require.NoError(t, w.count("a"))
	journal := redo(t, db.Path())[0]
	data, err := os.ReadFile(journal)
	require.NoError(t, err)
	require.NoError(t, db.Sync())
	path := killed(t, db.Path())
	require.NoError(t, os.WriteFile(path+".redo.0", data, 0o600))

	full := quiet
	full.FullSync = true
	openAt(t, path, full)
	require.Empty(t, redo(t, path))
	alone := filepath.Join(t.TempDir(), "store.db")
	data, err = os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(alone, data, 0o600))
	assert.Equal(t, map[string]int{"a": 1}, stored(t, openAt(t, alone, quiet)))
}

// TestCloseDespiteAFoldThatFails ends those who wait for room, and leaves the
// journals to the next process.
func TestCloseDespiteAFoldThatFails(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	db, err := Open(path, quiet)
	require.NoError(t, err)
	w := attach(t, db, "words")
	require.NoError(t, w.count("a"))
	w.fail = 1 << 30
	require.ErrorIs(t, db.Sync(), errRefused)
	require.NoError(t, w.count("b"))
	db.journaled.Store(full)
	done := make(chan error)
	go func() { done <- w.count("c") }()
	require.Eventually(t, func() bool {
		db.commits.mu.Lock()
		defer db.commits.mu.Unlock()
		return db.commits.room != nil
	}, 10*time.Second, time.Millisecond)
	require.ErrorIs(t, db.Close(), errRefused)
	require.ErrorIs(t, <-done, ErrClosed)
	assert.Len(t, redo(t, path), 2)
	again := openAt(t, path, quiet)
	attach(t, again, "words")
	assert.Equal(t, map[string]int{"a": 1, "b": 1}, stored(t, again))
}

// TestLockIsGivenUpWhileAChildStarts has a duplicate of the lock, as a child has
// between fork and exec.
func TestLockIsGivenUpWhileAChildStarts(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	db, err := Open(path, quiet)
	require.NoError(t, err)
	child, err := syscall.Dup(int(db.lock.Fd()))
	require.NoError(t, err)
	defer syscall.Close(child)
	require.NoError(t, db.Close())
	openAt(t, path, quiet)
}
