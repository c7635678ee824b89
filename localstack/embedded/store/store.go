// Package store is the embedded server's database, in which table and queues
// live side by side: ordered keys on Pebble, one atomic batch a commit.
//
// A commit is checked and made under one lock, so that what it read still holds
// when it is written; it is acknowledged, and what it wrote is shown to readers
// outside the process, when its log record is where [Options] promise: with the
// operating system, from where the death of the process takes nothing, or with
// FullSync on the disk.
package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// The store's errors.
var (
	// ErrClosed: the store has been closed.
	ErrClosed = errors.New("store: closed")
	// ErrInUse: another process (or another Open) has the directory.
	ErrInUse = errors.New("store: the directory is in use")
)

// The sizes of what is kept in memory, in bytes. A memtable is also the most
// that a log holds; memTables of them may wait to be written to tables before
// writes have to wait. They count against Pebble's cache, of which the rest is
// for blocks of tables.
const (
	blockCache   = 8 << 20
	memTableSize = 4 << 20
	memTables    = 4
)

// The sizes of tables, in bytes: those of a flush, and those of the first level
// that is compacted to, each next one having twice that. What is new stands in a
// few places among the keys, one for each kind of item. Small tables leave what
// lies between them alone when they are compacted; one table for a whole flush
// reaches over all there is, which would be written anew.
const (
	flushedTable   = 256 << 10
	compactedTable = 2 << 20
)

// Flushes wait for each other's compaction: half of compactAfter of them, and
// writes wait when there are stopAfter, of those that overlap. A read looks at
// the filters of each.
const (
	compactAfter = 8
	stopAfter    = 24
)

// uncompressed is how many levels hold what is young, is soon rewritten, and is
// not worth compressing.
const uncompressed = 5

// format is Pebble's on-disk format. None from FormatWALSyncChunks on may be
// used, which note in a log how far it was synced: without FullSync Pebble takes
// for synced what the disk may not have, and would refuse to open after a power
// cut. Earlier ones write tables through channels that Pebble keeps for the next
// table, which is not possible across testing/synctest bubbles.
const format = pebble.FormatColumnarBlocks

// Options are the settings of Open; the zero Options are the defaults.
type Options struct {
	// FullSync makes a commit wait for the disk. Without it an acknowledged write
	// survives the death of the process, but a power cut may lose the last ones:
	// those of one moment and all after it, never one in between.
	FullSync bool
	// ReadOnly opens a store for reading; nothing in the directory is changed.
	ReadOnly bool
	// MustExist refuses to make a store: there was one.
	MustExist bool
	// FS is the file system; nil is the operating system's.
	FS vfs.FS
	// Space refuses commits when the disk is nearly full; nil never does.
	Space *space.Space
	// Simulated says that time is that of a testing/synctest bubble, in which what
	// runs periodically costs more than it is worth.
	Simulated bool
	// Log receives what nobody waits for; nil is slog.Default.
	Log *slog.Logger

	memTable uint64 // bytes of a memtable; 0 is memTableSize
	boot     string // tells one start of the machine from the next; "" asks the operating system if FS is its
}

// DB is an open store. Its methods are safe for concurrent use.
type DB struct {
	pebble *pebble.DB
	cache  *pebble.Cache
	lock   *pebble.Lock
	space  *space.Space
	log    *slog.Logger
	dir    string
	damage sync.Map // *Damage by file: what reads and compactions met

	mu       sync.Mutex // held while a commit is checked and made
	lastSize int        // bytes of the last commit
	durable  durable

	unflushed atomic.Bool // what CommitLater wrote waits for flusher
	flusher   *time.Timer

	use    sync.RWMutex // held by whoever uses pebble; written by Close
	closed bool
}

// Open opens the store in dir, or makes one. What was acknowledged is all there, or
// it is not opened: see [Options] for what a power cut may take. Errors: ErrInUse,
// *Damage.
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
	db := &DB{space: opts.Space, log: opts.Log, dir: dir, cache: pebble.NewCache(blockCache + memTables*memTableSize), lock: lock}
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
	// Queues leave many tombstones, which the compactions that there are anyway take away.
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

// lock takes the directory, making it unless it is only read.
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
	if err != nil {
		return nil, fmt.Errorf("%w: %s (%w)", ErrInUse, dir, err)
	}
	return lock, nil
}

// OpenMemory opens an empty store in memory. It works in a testing/synctest
// bubble if it is opened and closed there.
func OpenMemory() (*DB, error) { return Open("store", Options{FS: vfs.NewMem(), Simulated: true}) }

// Checkpoint writes the store as it is now to dir, which must not exist, while it
// is used. Table files are linked where the file system can.
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

// Commits is how many commits wrote something.
func (db *DB) Commits() int64 { return int64(db.durable.made.Load()) }

// Close waits for what is under way and closes the store. Later calls fail with
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

// logger gives Pebble's messages to a slog.Logger: its errors, for it tells of
// every table it writes.
type logger struct{ log *slog.Logger }

// Infof drops the message.
func (logger) Infof(string, ...any) {}

// Errorf logs an error; but not each try on a full disk, which is told once.
func (l logger) Errorf(format string, args ...any) {
	for _, arg := range args {
		if err, ok := arg.(error); ok && vfs.IsNoSpaceError(err) {
			return
		}
	}
	l.log.Error("store: " + fmt.Sprintf(format, args...))
}

// Fatalf logs an error after which the process cannot go on, and ends it: what
// was acknowledged is in the log, and is there at the next start.
func (l logger) Fatalf(format string, args ...any) {
	l.log.Error("store: the process ends: " + fmt.Sprintf(format, args...))
	os.Exit(1)
}
