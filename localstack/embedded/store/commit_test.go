package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// words is a keeper of words with a count each.
type words struct {
	log *Owner

	mu      sync.Mutex
	visible map[string]int
	staged  map[string]int
	dirty   map[string]int
	fail    int // folds that fail
	folding func()
}

const wordsSchema = "CREATE TABLE words (word TEXT PRIMARY KEY, n INTEGER NOT NULL)"

func (w *words) Publish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.Copy(w.visible, w.staged)
	maps.Copy(w.dirty, w.staged)
	clear(w.staged)
}

func (w *words) Discard() { clear(w.staged) }

func (w *words) Freeze() (Fold, func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	dirty := w.dirty
	w.dirty = map[string]int{}
	fold := func(conn *sqlite.Conn) error {
		if w.folding != nil {
			w.folding()
		}
		if w.fail > 0 {
			w.fail--
			return errRefused
		}
		for word, n := range dirty {
			if err := setWord(conn, word, n); err != nil {
				return err
			}
		}
		return nil
	}
	return fold, func() {}
}

func setWord(conn *sqlite.Conn, word string, n int) error {
	return sqlitex.Execute(conn, "INSERT OR REPLACE INTO words VALUES (?, ?)", &sqlitex.ExecOptions{Args: []any{word, n}})
}

// replayWords counts each record of a word.
func replayWords(conn *sqlite.Conn, record []byte) error {
	word, n, _ := strings.Cut(string(record), " ")
	return setWord(conn, word, len(n))
}

// attach adds the keeper to the file, under a name.
func attach(t *testing.T, db *DB, name string) *words {
	t.Helper()
	w := &words{visible: map[string]int{}, staged: map[string]int{}, dirty: map[string]int{}}
	var err error
	w.log, err = db.Attach(name, w, replayWords, strings.ReplaceAll(wordsSchema, "TABLE", "TABLE IF NOT EXISTS"))
	require.NoError(t, err)
	return w
}

// count commits a word and counts how often it was.
func (w *words) count(word string) error { return w.log.Commit(context.Background(), w.stage(word)) }

func (w *words) stage(word string) func([]byte) ([]byte, error) {
	return func(record []byte) ([]byte, error) {
		n, ok := w.staged[word]
		if !ok {
			w.mu.Lock()
			n = w.visible[word]
			w.mu.Unlock()
		}
		w.staged[word] = n + 1
		return append(record, word+" "+strings.Repeat("x", n+1)...), nil
	}
}

func (w *words) seen(word string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.visible[word]
}

// stored reads the words that are in the database.
func stored(t *testing.T, db *DB) map[string]int {
	t.Helper()
	out := map[string]int{}
	require.NoError(t, db.Read(t.Context(), func(conn *sqlite.Conn) error {
		return sqlitex.Execute(conn, "SELECT word, n FROM words", &sqlitex.ExecOptions{ResultFunc: func(stmt *sqlite.Stmt) error {
			out[stmt.ColumnText(0)] = stmt.ColumnInt(1)
			return nil
		}})
	}))
	return out
}

// slow never folds by itself.
var slow = Options{FoldAfter: time.Hour}

func openAt(t *testing.T, path string, opts Options) *DB {
	t.Helper()
	db, err := Open(path, opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	return db
}

// killed is a copy of the files as a kill would leave them now.
func killed(t *testing.T, path string) string {
	t.Helper()
	dir := t.TempDir()
	files, err := filepath.Glob(path + "*")
	require.NoError(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(file)), data, 0o600))
	}
	return filepath.Join(dir, filepath.Base(path))
}

func redo(t *testing.T, path string) []string {
	t.Helper()
	files, err := filepath.Glob(path + ".redo.*")
	require.NoError(t, err)
	return files
}

func TestCommitsAreFoldedAWhileLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := openAt(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		w := attach(t, db, "words")
		for range 3 {
			require.NoError(t, w.count("a"))
		}
		assert.Equal(t, 3, w.seen("a"))
		assert.Empty(t, stored(t, db))
		assert.Len(t, redo(t, db.Path()), 1)
		time.Sleep(db.opts.FoldAfter)
		synctest.Wait()
		assert.Equal(t, map[string]int{"a": 3}, stored(t, db))
		assert.Empty(t, redo(t, db.Path()))
		assert.EqualValues(t, 1, db.Stats().Folds)
	})
}

func TestKilledStoreTakesUpItsJournal(t *testing.T) {
	t.Parallel()
	db := openAt(t, filepath.Join(t.TempDir(), "store.db"), slow)
	w := attach(t, db, "words")
	require.NoError(t, w.count("folded"))
	require.NoError(t, db.Sync())
	require.NoError(t, w.count("folded"))
	require.NoError(t, w.count("journal"))

	path := killed(t, db.Path())
	for range 2 { // killed again at once
		again := openAt(t, path, slow)
		attach(t, again, "words")
		assert.Equal(t, map[string]int{"folded": 2, "journal": 1}, stored(t, again))
		assert.Empty(t, redo(t, path))
		path = killed(t, path)
	}
}

func TestKillBetweenFoldAndRemoval(t *testing.T) {
	t.Parallel()
	db := openAt(t, filepath.Join(t.TempDir(), "store.db"), slow)
	w := attach(t, db, "words")
	require.NoError(t, w.count("a"))
	journal, err := os.ReadFile(redo(t, db.Path())[0])
	require.NoError(t, err)
	require.NoError(t, w.count("a"))
	require.NoError(t, db.Sync())

	path := killed(t, db.Path())
	require.NoError(t, os.WriteFile(path+".redo.0", journal, 0o600))
	again := openAt(t, path, slow)
	attach(t, again, "words")
	assert.Equal(t, map[string]int{"a": 2}, stored(t, again), "what is folded is not made again")
	assert.Empty(t, redo(t, path))
}

func TestDamagedJournals(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		damage func(t *testing.T, files []string)
		want   map[string]int
	}{
		"last frame cut off": {func(t *testing.T, files []string) {
			data, err := os.ReadFile(files[1])
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(files[1], data[:len(data)-1], 0o600))
		}, map[string]int{"a": 1, "b": 1, "c": 1}},
		"garbage behind": {func(t *testing.T, files []string) {
			data, err := os.ReadFile(files[1])
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(files[1], append(data, 0, 0, 0, 4, 1, 2, 3, 4, 5, 6, 7, 8), 0o600))
		}, map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}},
		"zeros behind": {func(t *testing.T, files []string) {
			data, err := os.ReadFile(files[1])
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(files[1], append(data, make([]byte, 100)...), 0o600))
		}, map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}},
		"bit flipped": {func(t *testing.T, files []string) {
			data, err := os.ReadFile(files[0])
			require.NoError(t, err)
			data[len(data)-1] ^= 1
			require.NoError(t, os.WriteFile(files[0], data, 0o600))
		}, map[string]int{"a": 1}},
		"first file lost": {func(t *testing.T, files []string) { require.NoError(t, os.Remove(files[0])) }, map[string]int{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := openAt(t, filepath.Join(t.TempDir(), "store.db"), slow)
			w := attach(t, db, "words")
			require.NoError(t, w.count("a"))
			require.NoError(t, w.count("b"))
			first := killed(t, db.Path()) // its journal holds a and b
			w2 := attach(t, openAt(t, first, slow), "words")
			_ = w2

			// Two journals, as if the fold between them had never come to be.
			path := killed(t, db.Path())
			require.NoError(t, db.Sync())
			require.NoError(t, w.count("c"))
			require.NoError(t, w.count("d"))
			data, err := os.ReadFile(redo(t, db.Path())[0])
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path+".redo.1", data, 0o600))

			c.damage(t, redo(t, path))
			again := openAt(t, path, Options{FoldAfter: time.Hour, Log: slog.New(slog.DiscardHandler)})
			w = attach(t, again, "words")
			assert.Equal(t, c.want, stored(t, again), "nothing behind what is lost counts")
			require.NoError(t, w.count("e"))
			third := openAt(t, killed(t, path), slow)
			attach(t, third, "words")
			assert.Equal(t, 1, stored(t, third)["e"], "the numbers go on")
		})
	}
}

func TestRecordsWaitForTheirOwner(t *testing.T) {
	t.Parallel()
	db := openAt(t, filepath.Join(t.TempDir(), "store.db"), slow)
	first, second := attach(t, db, "first"), attach(t, db, "second")
	require.NoError(t, first.count("of-first"))
	require.NoError(t, second.count("of-second"))

	path := killed(t, db.Path())
	again := openAt(t, path, slow)
	w := attach(t, again, "first")
	assert.Equal(t, map[string]int{"of-first": 1}, stored(t, again))
	require.NoError(t, w.count("more"))
	require.NoError(t, again.Sync())
	require.NoError(t, again.Close())
	assert.Len(t, redo(t, path), 1, "second has not taken up its records")

	again = openAt(t, path, slow)
	attach(t, again, "second")
	assert.Equal(t, map[string]int{"of-first": 1, "more": 1, "of-second": 1}, stored(t, again))
	assert.Empty(t, redo(t, path))
}

// TestKillsWhileStarting kills a server in the middle of a write, and the next
// one after the first of its owners has committed: that is kept.
func TestKillsWhileStarting(t *testing.T) {
	t.Parallel()
	db := openAt(t, filepath.Join(t.TempDir(), "store.db"), quiet)
	first, second := attach(t, db, "first"), attach(t, db, "second")
	require.NoError(t, first.count("of-first"))
	require.NoError(t, second.count("of-second"))

	path := killed(t, db.Path())
	journal, err := os.OpenFile(redo(t, path)[0], os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = journal.Write([]byte{0, 0, 1, 0, 1, 2, 3, 4, 5})
	require.NoError(t, errors.Join(err, journal.Close()))
	w := attach(t, openAt(t, path, quiet), "first")
	require.NoError(t, w.count("more"))

	again := openAt(t, killed(t, path), quiet)
	attach(t, again, "first")
	attach(t, again, "second")
	assert.Equal(t, map[string]int{"of-first": 1, "more": 1, "of-second": 1}, stored(t, again))
	assert.Empty(t, redo(t, again.Path()))
}

func TestOwnerAttachedAnew(t *testing.T) {
	t.Parallel()
	db := openAt(t, filepath.Join(t.TempDir(), "store.db"), slow)
	before := attach(t, db, "words")
	require.NoError(t, before.count("a"))
	before.folding = func() { assert.ErrorIs(t, before.count("too-late"), ErrDetached) }
	after := attach(t, db, "words")
	assert.Equal(t, map[string]int{"a": 1}, stored(t, db), "its changes are folded first")
	require.ErrorIs(t, before.count("a"), ErrDetached)
	require.NoError(t, after.count("b"))
}

// held makes the next group wait, so that what is committed meanwhile is one
// group.
func held(t *testing.T, db *DB, w *words, commits ...func() error) []error {
	t.Helper()
	begun, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		assert.NoError(t, w.log.Commit(context.Background(), func(record []byte) ([]byte, error) {
			close(begun)
			<-release
			return record, nil
		}))
	})
	<-begun
	errs := make([]error, len(commits))
	for i, commit := range commits {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					errs[i] = fmt.Errorf("panic: %v", p)
				}
			}()
			errs[i] = commit()
		})
		require.Eventually(t, func() bool { // each takes its place before the next
			db.commits.mu.Lock()
			defer db.commits.mu.Unlock()
			return len(db.commits.waiting) == i+1
		}, 10*time.Second, time.Millisecond)
	}
	close(release)
	wg.Wait()
	return errs
}

func TestCommitsThatWaitAreOneGroup(t *testing.T) {
	t.Parallel()
	db := openAt(t, filepath.Join(t.TempDir(), "store.db"), slow)
	w := attach(t, db, "words")
	errs := held(t, db, w,
		func() error { return w.count("a") },
		func() error {
			return w.log.Commit(context.Background(), func([]byte) ([]byte, error) { return nil, errRefused })
		},
		func() error { return w.count("a") },
		func() error {
			return w.log.Commit(context.Background(), func(record []byte) ([]byte, error) {
				w.staged["lost"] = 1
				panic("lost my head")
			})
		},
		func() error { return w.count("b") },
	)
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], errRefused)
	require.NoError(t, errs[2])
	require.ErrorContains(t, errs[3], "lost my head")
	require.NoError(t, errs[4])
	assert.EqualValues(t, 1, db.Stats().Commits)
	assert.Equal(t, map[string]int{"a": 2, "b": 1}, w.visible, "each as if it were alone")
	again := openAt(t, killed(t, db.Path()), slow)
	attach(t, again, "words")
	assert.Equal(t, map[string]int{"a": 2, "b": 1}, stored(t, again))
}

func TestManyCommitAtOnce(t *testing.T) {
	t.Parallel()
	db := openAt(t, filepath.Join(t.TempDir(), "store.db"), Options{FoldAfter: time.Microsecond})
	w := attach(t, db, "words")
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 100 {
				assert.NoError(t, w.count("all"))
				assert.NoError(t, w.count(fmt.Sprint(i)))
			}
		})
	}
	wg.Wait()
	assert.Equal(t, 1600, w.seen("all"))
	again := openAt(t, killedQuietly(t, db), slow)
	attach(t, again, "words")
	assert.Equal(t, w.visible, stored(t, again))
}

// killedQuietly is killed while no fold is under way, for it copies file by file.
func killedQuietly(t *testing.T, db *DB) string {
	db.folds.Lock()
	defer db.folds.Unlock()
	return killed(t, db.Path())
}

func TestFoldThatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	db := openAt(t, filepath.Join(t.TempDir(), "store.db"), slow)
	w := attach(t, db, "words")
	require.NoError(t, w.count("a"))
	w.fail = 1
	require.ErrorIs(t, db.Sync(), errRefused)
	require.NoError(t, w.count("a"))
	require.NoError(t, w.count("b"))
	path := killed(t, db.Path())
	require.NoError(t, db.Sync())
	assert.Equal(t, map[string]int{"a": 2, "b": 1}, stored(t, db), "what was committed meanwhile as well")
	again := openAt(t, path, slow)
	attach(t, again, "words")
	assert.Equal(t, map[string]int{"a": 2, "b": 1}, stored(t, again), "both journals were there")
}

func TestAsyncCommits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, err := Open(filepath.Join(t.TempDir(), "store.db"), slow)
		require.NoError(t, err)
		w := attach(t, db, "words")
		require.NoError(t, w.log.CommitAsync(w.stage("a")))
		require.NoError(t, w.log.CommitAsync(w.stage("a")))
		synctest.Wait()
		assert.Zero(t, w.seen("a"), "it lingers for a group to join")
		time.Sleep(db.opts.Linger)
		synctest.Wait()
		assert.Equal(t, 2, w.seen("a"))

		require.NoError(t, w.log.CommitAsync(w.stage("a")))
		require.NoError(t, w.count("b"))
		assert.Equal(t, 3, w.seen("a"), "a commit takes it along")

		require.NoError(t, w.log.CommitAsync(w.stage("a")))
		require.NoError(t, db.Close())
		assert.Equal(t, 4, w.seen("a"), "a close does, too")
		require.ErrorIs(t, w.count("b"), ErrClosed)
		require.ErrorIs(t, w.log.CommitAsync(w.stage("b")), ErrClosed)
		assert.Empty(t, redo(t, db.Path()), "and folds everything")
		again := openAt(t, db.Path(), Options{FullSync: true})
		w = attach(t, again, "words")
		assert.Equal(t, map[string]int{"a": 4, "b": 1}, stored(t, again))
		require.NoError(t, w.count("c"), "with a sync of each group")
	})
}

func TestFullJournalMakesCommitsWait(t *testing.T) {
	t.Parallel()
	db := openAt(t, filepath.Join(t.TempDir(), "store.db"), slow)
	w := attach(t, db, "words")
	require.NoError(t, w.count("a"))
	db.folds.Lock() // no fold can make room
	db.journaled.Store(full)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.log.Commit(ctx, w.stage("given-up")) }()
	require.Eventually(t, func() bool {
		db.commits.mu.Lock()
		defer db.commits.mu.Unlock()
		return db.commits.room != nil
	}, 10*time.Second, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	go func() { done <- w.count("b") }()
	db.folds.Unlock()
	require.NoError(t, <-done)
	assert.Zero(t, w.seen("given-up"))
}

func TestEndedContextCommitsNothing(t *testing.T) {
	t.Parallel()
	db := openAt(t, filepath.Join(t.TempDir(), "store.db"), slow)
	w := attach(t, db, "words")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, w.log.Commit(ctx, w.stage("a")), context.Canceled)
	assert.Zero(t, w.seen("a"))
	assert.False(t, errors.Is(w.count("a"), context.Canceled))
}

func FuzzParseFrame(f *testing.F) {
	frame := make([]byte, frameHeader)
	frame = append(frame, 7)
	frame, err := appendRecord(frame, "words", func(b []byte) ([]byte, error) { return append(b, "a x"...), nil })
	require.NoError(f, err)
	j := &journal{path: filepath.Join(f.TempDir(), "redo.")}
	require.NoError(f, j.write(frame))
	require.NoError(f, j.file.Close())
	f.Add(frame)
	f.Add([]byte("\x00\x00\x00\x01\x00\x00\x00\x00x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		group, records, rest, err := parseFrame(data)
		if err != nil {
			require.ErrorIs(t, err, errDamaged)
			return
		}
		require.Less(t, len(rest), len(data))
		for _, r := range records {
			require.Equal(t, group, r.group)
		}
	})
}
