package store

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"millrace/shared/platform/table"
)

// Batch is a commit in progress. It reads the state left by previous commits,
// not its own writes.
type Batch struct {
	db    *DB
	batch *pebble.Batch
	slots []*readSlot // of the read cache, of the keys that it writes
}

// Get reads a key. found is false if it does not exist.
func (b *Batch) Get(key []byte) (value string, found bool, err error) { return get(b.db.pebble, key) }

// Set writes a key. The store does not retain the slices.
func (b *Batch) Set(key, value []byte) error {
	b.note(key)
	return b.batch.Set(key, value, nil)
}

// Delete removes a key. A missing key is not an error.
func (b *Batch) Delete(key []byte) error {
	b.note(key)
	return b.batch.Delete(key, nil)
}

// note records that the batch writes a key, for the read cache.
func (b *Batch) note(key []byte) {
	if key[0] == ItemSpace {
		b.slots = append(b.slots, b.db.reads.slot(key))
	}
}

// written tells the read cache that readers see the writes.
func (b *Batch) written() {
	for _, slot := range b.slots {
		slot.end()
	}
}

// durability is when a commit returns.
type durability int

const (
	synced  durability = iota // when it is durable
	ordered                   // at once; it is durable before later commits, and before anybody reads it
	lazy                      // at once; it may be lost after it was read
)

// Commit calls make to check and write, serialized with other commits, and
// returns when its writes, and everything it read, are durable, or earlier with
// a context of table.SyncLater. If make fails nothing is written. Errors: those
// of make, ErrClosed, space.ErrFull, and ctx's if it has ended before.
func (db *DB) Commit(ctx context.Context, make func(*Batch) error) error {
	return db.CommitThen(ctx, make, nil)
}

// CommitThen is Commit that calls then, unless it is nil, when the writes can be
// read and are ordered before those of later commits, but before they are
// durable. What then begins makes them durable when it commits or reads something
// that is not cached; until then a crash may undo what it began for. Nobody who
// reads the store may hold a lock that then needs.
func (db *DB) CommitThen(ctx context.Context, make func(*Batch) error, then func()) error {
	when := synced
	if table.SyncsLater(ctx) {
		when = ordered
	}
	return db.commit(ctx, make, when, then)
}

// CommitLater is Commit without waiting for durability: the commit may be lost
// if the process dies before a following Commit has returned or [flushAfter]
// has passed. A full disk does not reject it.
func (db *DB) CommitLater(ctx context.Context, make func(*Batch) error) error {
	return db.commit(ctx, make, lazy, nil)
}

// Writable reports whether commits are accepted. Errors: space.ErrFull.
func (db *DB) Writable(ctx context.Context) error { return db.space.Check(ctx) }

func (db *DB) commit(ctx context.Context, make func(*Batch) error, when durability, then func()) error {
	if when != lazy {
		// Also before locking, because the holder of the lock may wait for disk
		// space.
		if err := db.Writable(ctx); err != nil {
			return err
		}
	}
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.use.RUnlock()
	b := Batch{db: db, batch: db.pebble.NewBatch()}
	defer func() { _ = b.batch.Close() }() // never fails
	seq, err := db.apply(ctx, &b, make, when)
	if err == nil && then != nil {
		then()
	}
	switch {
	case when == lazy:
	case seq == 0: // nothing was written; err may depend on others' writes
		db.waitDurable()
	case when == ordered:
	default:
		if fatal := b.batch.SyncWait(); fatal != nil {
			// The state of the log is unknown, and later commits depend on this one.
			logger{db.log}.Fatalf("commit: %v", fatal)
		}
		db.durable.reached(seq)
	}
	return err
}

// apply makes a commit under the lock, so that readers see it. It returns the
// number with which to wait for its durability, 0 if there is nothing to wait
// for.
func (db *DB) apply(ctx context.Context, b *Batch, make func(*Batch) error, when durability) (seq uint64, err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if when != lazy {
		// Checked before make, which may modify state of its own together with its
		// writes; so it uses the size of the previous commit.
		if err := db.space.Admit(ctx, db.lastSize); err != nil {
			return 0, err
		}
	}
	if err := make(b); err != nil || b.batch.Empty() {
		return 0, db.Unreadable(err)
	}
	for _, slot := range b.slots {
		slot.begin()
	}
	defer b.written()
	if when != lazy {
		db.lastSize = b.batch.Len()
		seq = db.durable.begin()
	}
	if when == synced {
		err = db.pebble.ApplyNoSyncWait(b.batch, pebble.Sync)
	} else {
		err = db.pebble.Apply(b.batch, pebble.NoSync)
	}
	if err != nil {
		logger{db.log}.Fatalf("commit: %v", err)
	}
	if when == ordered {
		db.durable.left(seq)
	}
	if when == lazy && db.unflushed.CompareAndSwap(false, true) {
		db.flusher.Reset(flushAfter)
	}
	return seq, nil
}

// flushAfter is how long the writes of CommitLater wait for another commit to
// flush them.
const flushAfter = 10 * time.Millisecond

// flush makes all writes so far durable.
func (db *DB) flush() {
	if err := db.enter(context.Background()); err != nil {
		return // Close has flushed it
	}
	defer db.use.RUnlock()
	db.unflushed.Store(false)
	db.sync()
}

// sync makes all writes so far durable. The store must be in use.
func (db *DB) sync() {
	seq := db.durable.last.Load()
	if err := db.pebble.LogData(nil, pebble.Sync); err != nil {
		logger{db.log}.Fatalf("flush: %v", err)
	}
	db.durable.reached(seq)
}

// Wait returns when everything that the caller may have read of the store is
// durable.
func (db *DB) Wait() {
	if db.enter(context.Background()) == nil { // otherwise Close makes it durable
		defer db.use.RUnlock()
		db.waitDurable()
	}
}

// waitDurable is Wait while the store is in use. It does not wait for a next
// commit that is to make earlier ones durable.
func (db *DB) waitDurable() {
	for seen := db.durable.made.Load(); !db.durable.wait(seen); {
		db.sync()
	}
}

// durable tracks which commits are durable. They become durable in the order of
// their creation, because they share one log.
type durable struct {
	made    atomic.Uint64 // the last commit visible to readers
	synced  atomic.Uint64 // the last durable commit; all earlier ones are durable, too
	last    atomic.Uint64 // the last commit whose durability was left to a later one
	waiting atomic.Int64

	mu   sync.Mutex
	cond sync.Cond
}

// begin numbers a commit before readers can see it.
func (d *durable) begin() uint64 { return d.made.Add(1) }

// reached records that a commit is durable.
func (d *durable) reached(seq uint64) {
	for {
		before := d.synced.Load()
		if before >= seq {
			return
		}
		if d.synced.CompareAndSwap(before, seq) {
			break
		}
	}
	d.wake()
}

// left records that the durability of a commit is left to a later one.
func (d *durable) left(seq uint64) {
	d.last.Store(seq)
	d.wake()
}

func (d *durable) wake() {
	if d.waiting.Load() > 0 {
		d.mu.Lock()
		d.cond.Broadcast()
		d.mu.Unlock()
	}
}

// wait returns true when the commits up to one are durable. It returns false if
// that may need another commit.
func (d *durable) wait(seq uint64) bool {
	if d.synced.Load() >= seq {
		return true
	}
	d.waiting.Add(1)
	defer d.waiting.Add(-1)
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.synced.Load() < seq {
		if d.last.Load() > d.synced.Load() { //guard:store/sync-left false
			return false
		}
		d.cond.Wait()
	}
	return true
}
