package sqlqueue

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"millrace/localstack/embedded/store"
	"millrace/shared/clock"
	"millrace/shared/queue"
)

// TestBodyWhileItIsFolded receives messages whose bodies are on disk alone, at
// each stage of their way there.
func TestBodyWhileItIsFolded(t *testing.T) {
	t.Parallel()
	db, err := store.Open(filepath.Join(t.TempDir(), "queue.db"), store.Options{FoldAfter: time.Hour})
	require.NoError(t, err)
	defer db.Close()
	qs, err := New(t.Context(), db, clock.System{}, []queue.Definition{{Name: "q", Visibility: time.Hour}})
	require.NoError(t, err)
	defer qs.Close()
	qs.budget = 0
	next := func(want string) {
		t.Helper()
		ds, err := qs.Receive(t.Context(), "q", 1, 0)
		require.NoError(t, err)
		require.Len(t, ds, 1)
		assert.Equal(t, want, string(ds[0].Body))
	}
	send(t, qs, text("a"), text("b"), text("c"), text("d"))
	next(`"a"`)
	fold, folded := qs.Freeze()
	next(`"b"`)
	require.NoError(t, db.Write(t.Context(), fold))
	next(`"c"`)
	folded()
	next(`"d"`)
}

// rows reads the table, without the bodies.
func rows(t require.TestingT, db *store.DB) (out []change) {
	require.NoError(t, db.Read(context.Background(), func(conn *sqlite.Conn) error {
		return sqlitex.Execute(conn, "SELECT seq, queue, receives FROM queue_messages ORDER BY seq", &sqlitex.ExecOptions{
			ResultFunc: func(stmt *sqlite.Stmt) error {
				out = append(out, change{seq: stmt.ColumnInt64(0), queue: stmt.ColumnText(1), receives: stmt.ColumnInt64(2)})
				return nil
			}})
	}))
	return out
}

// TestChangesMergeAsTheyWouldBeMade folds changes of messages, merged or not, as
// a life may bring them, and compares with each change made by itself.
func TestChangesMergeAsTheyWouldBeMade(t *testing.T) {
	t.Parallel()
	db, err := store.Open(filepath.Join(t.TempDir(), "queue.db"), store.Options{FoldAfter: time.Hour})
	require.NoError(t, err)
	defer db.Close()
	qs, err := New(t.Context(), db, clock.System{}, nil)
	require.NoError(t, err)
	apply := func(t require.TestingT, fn func(*sqlite.Conn) error) {
		require.NoError(t, db.Write(context.Background(), fn))
	}
	empty := func(conn *sqlite.Conn) error { return sqlitex.Execute(conn, "DELETE FROM queue_messages", nil) }
	rapid.Check(t, func(t *rapid.T) {
		apply(t, empty)
		qs.unfolded.changes = nil
		var all []change
		alive := map[int64]bool{}
		steps := rapid.IntRange(1, 30).Draw(t, "steps")
		for range steps {
			c := change{seq: int64(rapid.IntRange(1, 4).Draw(t, "seq")), body: []byte("b")}
			known, sentBefore := alive[c.seq]
			switch {
			case !sentBefore:
				c.kind, c.queue = sent, "q"
				alive[c.seq] = true
			case !known:
				continue // it is deleted
			default:
				c.kind = rapid.SampledFrom([]kind{deleted, received, received, moved}).Draw(t, "kind")
				switch c.kind {
				case deleted:
					alive[c.seq] = false
				case received:
					c.receives = int64(rapid.IntRange(2, 5).Draw(t, "receives"))
				case moved:
					c.queue = "q-dead"
				}
			}
			all = append(all, c)
			qs.stage(nil, c)
			qs.Publish()
			if rapid.IntRange(0, 3).Draw(t, "fold") == 0 {
				fold, folded := qs.Freeze()
				apply(t, fold)
				folded()
			}
		}
		fold, folded := qs.Freeze()
		apply(t, fold)
		folded()
		got := rows(t, db)
		apply(t, empty)
		var record []byte
		for _, c := range all {
			record = c.append(record)
		}
		apply(t, func(conn *sqlite.Conn) error { return replay(conn, record) })
		require.Equal(t, rows(t, db), got)
	})
}
