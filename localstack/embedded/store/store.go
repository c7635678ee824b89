// Package store is the embedded server's one SQLite file, with a journal in
// front of it, and a lock that keeps a second process out. The embedded table
// and queue both live in it, each with tables of its own.
//
// Owners commit to the journal (see [Owner.Commit]): whatever waits is one
// group, written to a file by one system call. What they committed they keep in
// memory until, a moment later, it is folded into the database, where a row that
// was written many times is written once, and one that came and went not at all.
// After the death of the process the next Open finds in the journal what was not
// folded.
package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"
)

// The store's errors.
var (
	// ErrClosed: the store has been closed.
	ErrClosed = errors.New("store: closed")
	// ErrInUse: another process (or another Open) holds the file.
	ErrInUse = errors.New("store: data directory is in use by another server")
	// ErrNewer: the file was written by a newer version of this program.
	ErrNewer = errors.New("store: file is of a newer version")
)

// layout is the file's own version, kept as its user_version; the tables of
// each owner are versioned by [DB.Migrate].
const layout = 2

// applicationID marks the file as this program's ("Mlrc").
const applicationID = 0x4d6c7263

// Options are the settings of Open; the zero Options are the defaults.
type Options struct {
	// FullSync makes a commit wait for the disk (synchronous FULL). Without it
	// an acknowledged write survives the death of the process but the last ones
	// may be lost, never torn, in a power cut.
	FullSync bool
	// Readers is how many reads run at once; 0 is 4.
	Readers int
	// Linger is how long asynchronous writes wait for a group to join before
	// they make one of their own; 0 is 2 ms.
	Linger time.Duration
	// FoldAfter is how long what is committed waits in the journal before it is
	// folded into the database; 0 is 50 ms.
	FoldAfter time.Duration
	// Log receives failures nobody waits for; nil is slog.Default.
	Log *slog.Logger
}

// DB is the open file. Its methods are safe for concurrent use.
type DB struct {
	path    string
	opts    Options
	lock    *os.File
	writer  *sqlite.Conn      // used by the writer goroutine alone
	readers chan *sqlite.Conn // idle read connections; nil for one not yet opened
	wake    chan struct{}     // says that pending is not empty, or that closed is set
	stopped chan struct{}     // closed when the writer has gone

	mu      sync.Mutex
	pending []*job
	spare   []*job // the slice pending will use next
	closing bool   // Close was called
	closed  bool   // nothing more is written

	groups, writes, rollbacks atomic.Int64

	commits    committer
	dirty      chan struct{} // says that the journal is not empty
	hurry      chan struct{} // says that it has grown large
	stopping   chan struct{} // closed when no more is committed
	folderDone chan struct{}
	journaled  atomic.Int64 // bytes of the journal

	folds    sync.Mutex        // for what follows
	owners   map[string]*Owner // changed under commits.group as well
	left     recovered         // what owners not attached yet will replay
	unfolded *folding          // a fold that is not done

	commitGroups, commitChanges, foldCount atomic.Int64
}

// Open opens the file at path, making it and its directory if need be, and
// takes the lock beside it (path + ".lock"): ErrInUse if another process has it.
func Open(path string, opts Options) (*DB, error) {
	if opts.Readers <= 0 {
		opts.Readers = 4
	}
	if opts.Linger <= 0 {
		opts.Linger = 2 * time.Millisecond
	}
	if opts.FoldAfter <= 0 {
		opts.FoldAfter = 50 * time.Millisecond
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if err := makeDir(filepath.Dir(path), opts.FullSync); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	lock, err := acquire(path + ".lock")
	if err != nil {
		return nil, err
	}
	writer, err := openWriter(path, opts.FullSync)
	if err != nil {
		return nil, errors.Join(err, release(lock))
	}
	db := &DB{
		path:    path,
		opts:    opts,
		lock:    lock,
		writer:  writer,
		readers: make(chan *sqlite.Conn, opts.Readers),
		wake:    make(chan struct{}, 1),
		stopped: make(chan struct{}),
	}
	for range opts.Readers {
		db.readers <- nil
	}
	if err := db.openJournal(); err != nil {
		return nil, errors.Join(err, writer.Close(), release(lock))
	}
	go db.write()
	go db.folder()
	return db, nil
}

// makeDir makes a directory and those it is in, and their names durable.
func makeDir(dir string, durable bool) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeDir(parent, durable); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if !durable {
		return nil
	}
	return syncDir(parent, (*os.File).Sync)
}

// openJournal takes up what an earlier process left.
func (db *DB) openJournal() (err error) {
	db.dirty, db.hurry = make(chan struct{}, 1), make(chan struct{}, 1)
	db.stopping, db.folderDone = make(chan struct{}), make(chan struct{})
	db.owners = map[string]*Owner{}
	folded, err := readFolded(db.writer)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	path := db.path + ".redo."
	if db.left, err = recoverJournal(path, folded, db.opts.Log); err != nil {
		return err
	}
	if db.opts.FullSync && len(db.left.files) > 0 {
		// A kill in the middle of a fold leaves what is committed to the database,
		// but not on the disk as the journal is.
		if err := exec(db.writer, "PRAGMA wal_checkpoint"); err != nil {
			return fmt.Errorf("store: %w", err)
		}
	}
	db.commits.last = db.left.last
	db.commits.journal = journal{path: path, number: db.left.next}
	if db.opts.FullSync {
		db.commits.journal.sync = (*os.File).Sync
	}
	return db.dropJournals()
}

// Path returns the path of the file.
func (db *DB) Path() string { return db.path }

// Read runs fn with a read connection. Each statement sees everything committed
// when it begins; statements that must see one moment need a transaction of
// their own (BEGIN … COMMIT). fn must not keep the connection. ctx bounds the
// wait for a connection; a statement once begun is not interrupted.
func (db *DB) Read(ctx context.Context, fn func(*sqlite.Conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var conn *sqlite.Conn
	var open bool
	select {
	case conn, open = <-db.readers:
	default:
		select {
		case conn, open = <-db.readers:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if !open {
		return ErrClosed
	}
	defer func() { db.readers <- conn }()
	if conn == nil {
		var err error
		if conn, err = openReader(db.path); err != nil {
			return err
		}
	}
	return fn(conn)
}

// Stats counts what the writer did since Open.
type Stats struct {
	Groups    int64 // transactions of the database
	Writes    int64 // writes in them
	Rollbacks int64 // groups rolled back; more than a few is a bug of a writer
	Commits   int64 // groups of commits: frames of the journal
	Changes   int64 // commits in them
	Folds     int64 // of the journal into the database
}

// Stats returns the counts so far.
func (db *DB) Stats() Stats {
	return Stats{
		Groups: db.groups.Load(), Writes: db.writes.Load(), Rollbacks: db.rollbacks.Load(),
		Commits: db.commitGroups.Load(), Changes: db.commitChanges.Load(), Folds: db.foldCount.Load(),
	}
}

// Close commits and folds what waits, what is asynchronous included, waits for
// reads under way, and closes the file. Later calls fail with ErrClosed; a second Close
// does nothing.
func (db *DB) Close() error {
	db.mu.Lock()
	if db.closing {
		db.mu.Unlock()
		<-db.stopped
		return nil
	}
	db.closing = true
	db.mu.Unlock()
	errs := []error{db.closeJournal()}
	db.mu.Lock()
	db.closed = true
	db.mu.Unlock()
	db.signal()
	<-db.stopped
	for range db.opts.Readers {
		if conn := <-db.readers; conn != nil {
			errs = append(errs, conn.Close())
		}
	}
	close(db.readers)
	// The last connection to close folds the log into the file.
	errs = append(errs, db.writer.Close(), release(db.lock))
	return errors.Join(errs...)
}
