// Package store is the embedded server's database for table and queues: ordered
// keys on Pebble, with one atomic batch per commit.
//
// Commits are serialized, so that what a commit has read still holds when it is
// written. A commit is acknowledged, and disclosed to readers outside of the
// process, once its log record is as durable as [Options] promise: with the
// operating system, where it survives the death of the process, or with
// FullSync on disk.
package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/localstack/embedded/space"
)

// Errors of a store.
var (
	// ErrClosed means that the store has been closed.
	ErrClosed = errors.New("store: closed")
	// ErrInUse means that another process (or another Open) uses the directory.
	ErrInUse = errors.New("store: the directory is in use")
)

// Memory sizes in bytes. A memtable is also the largest size of a log;
// memTables of them may wait to be written to tables before writes have to
// wait. They count against Pebble's cache, the rest of which is for blocks of
// tables.
const (
	blockCache   = 8 << 20
	memTableSize = 4 << 20
	memTables    = 4
)

// Table sizes in bytes: of tables written by a flush, and of the first level of
// compaction; each further level has twice that. New keys are in a few places
// of the key space, one for each kind of item. With small tables, a compaction
// rewrites only these places; a single table for a whole flush would span all
// keys, and all of them would be rewritten.
const (
	flushedTable   = 256 << 10
	compactedTable = 2 << 20
)

// Compaction of overlapping flushes begins at half of compactAfter, and writes
// wait at stopAfter. A read checks the filters of each.
const (
	compactAfter = 8
	stopAfter    = 24
)

// uncompressed is the number of levels whose data is young, soon rewritten, and
// not worth compressing.
const uncompressed = 5

// format is Pebble's on-disk format. FormatWALSyncChunks and later ones cannot
// be used, because they record in a log how far it was synced: without FullSync
// Pebble would take unsynced data for synced, and refuse to open the store
// after a power cut. Earlier formats write tables through channels that Pebble
// reuses for the next table, which does not work across testing/synctest
// bubbles.
const format = pebble.FormatColumnarBlocks

// Options are the options of Open. The zero Options are the defaults.
type Options struct {
	// FullSync makes a commit wait for the disk. Without it an acknowledged write
	// survives the death of the process, but a power cut may lose the latest
	// writes: all from some moment on, never one in between.
	FullSync bool
	// ReadOnly opens a store for reading and changes nothing in the directory.
	ReadOnly bool
	// MustExist makes Open fail instead of creating a store.
	MustExist bool
	// FS is the file system; nil means the operating system's.
	FS vfs.FS
	// Space rejects commits when the disk is nearly full; nil never does.
	Space *space.Space
	// Simulated means that time is that of a testing/synctest bubble, in which
	// periodic work costs more than it is worth.
	Simulated bool
	// Log receives background errors; nil means slog.Default.
	Log *slog.Logger

	memTable uint64 // bytes of a memtable; 0 means memTableSize
	boot     string // id of the machine's boot; "" means the operating system's, if FS is its file system
}

// DB is an open store. Its methods are safe for concurrent use.
type DB struct {
	pebble *pebble.DB
	cache  *pebble.Cache
	lock   *pebble.Lock
	space  *space.Space
	log    *slog.Logger
	dir    string
	damage sync.Map // *Damage by file, as met by reads and compactions
	reads  *readCache

	mu       sync.Mutex // held while a commit is checked and applied
	lastSize int        // bytes of the last commit
	durable  durable

	unflushed atomic.Bool // writes of CommitLater wait for flusher
	flusher   *time.Timer

	use    sync.RWMutex // read-locked while pebble is used; locked by Close
	closed bool
}

// Open opens the store in dir, or creates one. It either has all acknowledged
// writes or is not opened; see [Options] for what a power cut may lose. Errors:
// ErrInUse, *Damage.
func Open(dir string, opts Options) (*DB, error) {
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.FS == nil {
		opts.FS = vfs.Default
	}
	if opts.boot == "" && opts.FS == vfs.Default {
		opts.boot = bootID()
	}
	fs := &files{FS: opts.FS, lazy: !opts.FullSync, boot: opts.boot, log: opts.Log}
	lock, err := lock(dir, fs, opts.ReadOnly)
	if err != nil {
		return nil, err
	}
	there, err := prepare(dir, fs, opts)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	db := &DB{space: opts.Space, log: opts.Log, dir: dir, reads: newReadCache(), cache: pebble.NewCache(blockCache + memTables*memTableSize), lock: lock}
	db.durable.cond.L = &db.durable.mu
	o := &pebble.Options{
		FS:                          fs,
		Lock:                        lock,
		Cache:                       db.cache,
		FormatMajorVersion:          format,
		MemTableSize:                cmp.Or(opts.memTable, memTableSize),
		MemTableStopWritesThreshold: memTables,
		L0CompactionThreshold:       compactAfter,
		L0StopWritesThreshold:       stopAfter,
		MaxOpenFiles:                500,
		ReadOnly:                    opts.ReadOnly,
		ErrorIfNotExists:            opts.ReadOnly,
		Logger:                      logger{opts.Log},
		EventListener: &pebble.EventListener{DataCorruption: func(info pebble.DataCorruptionInfo) {
			_ = db.noteDamage(filepath.Base(info.Path), info.Details)
		}},
	}
	o.TargetFileSizes[0] = flushedTable
	for i := 1; i < len(o.TargetFileSizes); i++ {
		o.TargetFileSizes[i] = compactedTable << (i - 1)
	}
	// Queues leave many tombstones, which ordinary compactions remove.
	o.Experimental.TombstoneDenseCompactionThreshold = -1
	if opts.Simulated {
		o.Experimental.CompactionScheduler = pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].IndexBlockSize = 1 << 20 // one level of index for a table of any size
		o.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.SnappyCompression }
		if i < uncompressed {
			o.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
		}
	}
	if db.pebble, err = pebble.Open(dir, o); err != nil {
		db.cache.Unref()
		if there {
			err = damaged(dir, err)
		} else {
			err = fmt.Errorf("store: %w", err)
		}
		return nil, errors.Join(err, lock.Close())
	}
	db.flusher = time.AfterFunc(flushAfter, db.flush)
	db.flusher.Stop() // until there is something to flush
	return db, nil
}

// lock locks the directory and creates it unless readOnly is set.
func lock(dir string, fs vfs.FS, readOnly bool) (*pebble.Lock, error) {
	if !readOnly {
		if err := fs.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("store: %w", err)
		}
	}
	if _, err := fs.Stat(dir); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	lock, err := pebble.LockDirectory(dir, fs)
	if _, unopened := errors.AsType[*iofs.PathError](err); unopened {
		return nil, fmt.Errorf("store: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s (%w)", ErrInUse, dir, err)
	}
	return lock, nil
}

// OpenMemory opens an empty in-memory store. It works in a testing/synctest
// bubble if it is opened and closed there.
func OpenMemory() (*DB, error) { return Open("store", Options{FS: vfs.NewMem(), Simulated: true}) }

// Checkpoint writes a snapshot of the store to dir, which must not exist, while
// the store is in use. Table files are linked if the file system supports it.
func (db *DB) Checkpoint(ctx context.Context, dir string) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.use.RUnlock()
	if err := db.pebble.Checkpoint(dir, pebble.WithFlushedWAL()); err != nil {
		return fmt.Errorf("store: checkpoint: %w", err)
	}
	return nil
}

// Commits returns the number of commits that wrote something.
func (db *DB) Commits() int64 { return int64(db.durable.made.Load()) }

// Close waits for calls in progress and closes the store. Later calls fail with
// ErrClosed; a second Close does nothing.
func (db *DB) Close() error {
	db.use.Lock()
	defer db.use.Unlock()
	if db.closed {
		return nil
	}
	db.closed = true
	db.flusher.Stop()
	err := db.pebble.Close()
	db.cache.Unref()
	return errors.Join(err, db.lock.Close())
}

// enter keeps the store open until the caller calls db.use.RUnlock.
func (db *DB) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	db.use.RLock()
	if db.closed {
		db.use.RUnlock()
		return ErrClosed
	}
	return nil
}

// logger passes Pebble's errors to a slog.Logger. It drops other messages,
// because Pebble logs every table it writes.
type logger struct{ log *slog.Logger }

// Infof drops the message.
func (logger) Infof(string, ...any) {}

// Errorf logs an error, but not each attempt on a full disk, which is logged
// once.
func (l logger) Errorf(format string, args ...any) {
	for _, arg := range args {
		if err, ok := arg.(error); ok && vfs.IsNoSpaceError(err) {
			return
		}
	}
	l.log.Error("store: " + fmt.Sprintf(format, args...))
}

// Fatalf logs an error after which the process cannot continue, and ends it.
// Acknowledged writes are in the log and are read at the next start.
func (l logger) Fatalf(format string, args ...any) {
	l.log.Error("store: the process ends: " + fmt.Sprintf(format, args...))
	os.Exit(1)
}
