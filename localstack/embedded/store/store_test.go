package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

var errRefused = errors.New("refused")

func open(t *testing.T) *DB {
	t.Helper()
	db, err := Open(filepath.Join(t.TempDir(), "data", "store.db"), Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	require.NoError(t, db.Migrate("test", "CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT NOT NULL)"))
	return db
}

func insert(id int) func(*sqlite.Conn) error {
	return func(conn *sqlite.Conn) error {
		stmt, err := conn.Prepare("INSERT INTO notes VALUES (?, ?)")
		if err != nil {
			return err
		}
		stmt.BindInt64(1, int64(id))
		stmt.BindText(2, fmt.Sprint("note ", id))
		_, err = stmt.Step()
		return err
	}
}

func count(t *testing.T, db *DB) (n int64) {
	t.Helper()
	require.NoError(t, db.Read(context.Background(), func(conn *sqlite.Conn) (err error) {
		n, err = queryInt(conn, "SELECT count(*) FROM notes")
		return err
	}))
	return n
}

// together makes the writer take all of fns as one group: they pile up while it
// is held inside a write.
func together(t *testing.T, db *DB, fns ...func(*sqlite.Conn) error) []error {
	t.Helper()
	held, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		assert.NoError(t, db.Write(context.Background(), func(*sqlite.Conn) error {
			close(held)
			<-release
			return nil
		}))
	})
	<-held
	jobs := make([]*job, len(fns))
	for i, fn := range fns {
		jobs[i] = &job{fn: fn, done: make(chan struct{})}
		require.NoError(t, db.submit(jobs[i]))
	}
	close(release)
	wg.Wait()
	errs := make([]error, len(fns))
	for i, j := range jobs {
		<-j.done
		errs[i] = j.err
		if j.panicked != nil {
			errs[i] = fmt.Errorf("panic: %v", j.panicked)
		}
	}
	return errs
}

func TestWritesThatWaitCommitAsOneGroup(t *testing.T) {
	t.Parallel()
	db := open(t)
	before := db.Stats()
	for _, err := range together(t, db, insert(1), insert(2), insert(3)) {
		require.NoError(t, err)
	}
	after := db.Stats()
	assert.EqualValues(t, 2, after.Groups-before.Groups, "the holder's group and the one of three")
	assert.EqualValues(t, 4, after.Writes-before.Writes)
	assert.EqualValues(t, 3, count(t, db))
}

func TestErrorBeforeAnyWriteLeavesTheGroup(t *testing.T) {
	t.Parallel()
	db := open(t)
	errs := together(t, db, insert(1), func(*sqlite.Conn) error { return errRefused }, insert(2))
	assert.Equal(t, []error{nil, errRefused, nil}, errs)
	assert.EqualValues(t, 2, count(t, db))
	assert.Zero(t, db.Stats().Rollbacks)
}

func TestErrorAfterAWriteRollsBackOnlyItself(t *testing.T) {
	t.Parallel()
	cases := map[string]func(*sqlite.Conn) error{
		"error": func(conn *sqlite.Conn) error { return errors.Join(insert(9)(conn), errRefused) },
		"panic": func(conn *sqlite.Conn) error {
			if err := insert(9)(conn); err != nil {
				return err
			}
			panic("lost my head")
		},
	}
	for name, bad := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t)
			errs := together(t, db, insert(1), bad, insert(2))
			require.NoError(t, errs[0])
			require.Error(t, errs[1])
			require.NoError(t, errs[2])
			assert.EqualValues(t, 2, count(t, db), "the bad write must leave nothing, the others all")
			assert.EqualValues(t, 2, db.Stats().Rollbacks, "the group, then the bad one alone")
		})
	}
}

func TestPanicReachesItsCaller(t *testing.T) {
	t.Parallel()
	db := open(t)
	assert.Panics(t, func() {
		_ = db.Write(t.Context(), func(*sqlite.Conn) error { panic("mine") })
	})
	require.NoError(t, db.Write(t.Context(), insert(1)), "the writer must live on")
}

func TestReadsSeeWhatIsCommitted(t *testing.T) {
	t.Parallel()
	db := open(t)
	for i := range 20 {
		require.NoError(t, db.Write(t.Context(), insert(i)))
		require.EqualValues(t, i+1, count(t, db))
	}
	err := db.Read(t.Context(), func(conn *sqlite.Conn) error {
		return sqlitex.Execute(conn, "DELETE FROM notes", nil)
	})
	assert.Error(t, err, "a read connection must not write")
}

func TestCloseWritesWhatWaits(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	db, err := Open(path, Options{})
	require.NoError(t, err)
	require.NoError(t, db.Migrate("test", "CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT NOT NULL)"))
	require.NoError(t, db.Write(t.Context(), insert(1)))
	require.NoError(t, db.Close())
	require.NoError(t, db.Close(), "a second close does nothing")
	require.ErrorIs(t, db.Write(t.Context(), insert(2)), ErrClosed)
	require.ErrorIs(t, db.Read(t.Context(), func(*sqlite.Conn) error { return nil }), ErrClosed)
	assert.NoFileExists(t, path+"-wal", "a graceful close folds the log in")

	db, err = Open(path, Options{FullSync: true})
	require.NoError(t, err)
	assert.EqualValues(t, 1, count(t, db))
	require.NoError(t, db.Close())
}

func TestSecondOpenIsRefused(t *testing.T) {
	t.Parallel()
	db := open(t)
	_, err := Open(db.Path(), Options{})
	require.ErrorIs(t, err, ErrInUse)
	assert.ErrorContains(t, err, db.Path()+".lock")
}

func TestEndedContext(t *testing.T) {
	t.Parallel()
	db := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, db.Write(ctx, insert(1)), context.Canceled)
	require.ErrorIs(t, db.Read(ctx, func(*sqlite.Conn) error { return nil }), context.Canceled)
	assert.Zero(t, count(t, db))
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	db := open(t)
	first, second := "CREATE TABLE a (x)", "ALTER TABLE a ADD COLUMN y; CREATE INDEX a_y ON a (y)"
	require.NoError(t, db.Migrate("a", first))
	require.NoError(t, db.Migrate("a", first, second))
	require.NoError(t, db.Migrate("a", first, second), "what the file has seen is skipped")
	require.ErrorIs(t, db.Migrate("a", first), ErrNewer)

	require.Error(t, db.Migrate("b", "CREATE TABLE b (x); NONSENSE"))
	require.NoError(t, db.Migrate("b", "CREATE TABLE b (x)"), "a failed step left nothing")
}

func TestNewerLayoutIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	conn, err := sqlite.OpenConn(path)
	require.NoError(t, err)
	require.NoError(t, exec(conn, "PRAGMA user_version = 99"))
	require.NoError(t, conn.Close())
	_, err = Open(path, Options{})
	require.ErrorIs(t, err, ErrNewer)
}

func BenchmarkWrite(b *testing.B) {
	db, err := Open(filepath.Join(b.TempDir(), "store.db"), Options{})
	require.NoError(b, err)
	defer db.Close()
	b.ReportAllocs()
	for b.Loop() {
		if err := db.Write(b.Context(), func(*sqlite.Conn) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
