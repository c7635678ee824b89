package store

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Batch is a commit that is being made. What it reads is what the commits before
// it left; its own writes are not among that.
type Batch struct {
	db    *DB
	batch *pebble.Batch
}

// Get reads a key; false if it is absent.
func (b *Batch) Get(key []byte) (value string, found bool, err error) { return get(b.db.pebble, key) }

// Set writes a key. The store keeps neither slice.
func (b *Batch) Set(key, value []byte) error { return b.batch.Set(key, value, nil) }

// Delete removes a key; an absent one is fine.
func (b *Batch) Delete(key []byte) error { return b.batch.Delete(key, nil) }

// Commit lets make check and write, one commit after the other, and returns when
// what it wrote is durable, as is what it saw. If make fails nothing is written.
// Errors: make's, ErrClosed, space.ErrFull, ctx's if it has ended before.
func (db *DB) Commit(ctx context.Context, make func(*Batch) error) error {
	return db.commit(ctx, make, true)
}

// CommitLater is Commit without the wait: the death of the process may undo it
// until a Commit that follows has returned, or [flushAfter] has passed. A full
// disk does not refuse it.
func (db *DB) CommitLater(ctx context.Context, make func(*Batch) error) error {
	return db.commit(ctx, make, false)
}

// Writable tells whether commits are accepted. Errors: space.ErrFull.
func (db *DB) Writable(ctx context.Context) error { return db.space.Check(ctx) }

func (db *DB) commit(ctx context.Context, make func(*Batch) error, wait bool) error {
	if wait {
		// Also before the lock: whoever has it may wait for room.
		if err := db.Writable(ctx); err != nil {
			return err
		}
	}
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.use.RUnlock()
	b := Batch{db: db, batch: db.pebble.NewBatch()}
	defer func() { _ = b.batch.Close() }() // it never fails
	seq, err := db.apply(ctx, &b, make, wait)
	switch {
	case !wait:
	case seq == 0: // nothing was written, and err tells of what others wrote
		db.durable.wait()
	default:
		if fatal := b.batch.SyncWait(); fatal != nil {
			// What the log holds is not known, and later commits stand on this one.
			logger{db.log}.Fatalf("commit: %v", fatal)
		}
		db.durable.reached(seq)
	}
	return err
}

// apply makes a commit under the lock, so that readers see it. It returns the
// number by which its durability is told, 0 if that is not to be waited for.
func (db *DB) apply(ctx context.Context, b *Batch, make func(*Batch) error, wait bool) (seq uint64, err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if wait {
		// Asked before make, which may keep state of its own that follows what it
		// writes; so for as much as the commit before took.
		if err := db.space.Admit(ctx, db.lastSize); err != nil {
			return 0, err
		}
	}
	if err := make(b); err != nil || b.batch.Empty() {
		return 0, db.Unreadable(err)
	}
	if !wait {
		if err := db.pebble.Apply(b.batch, pebble.NoSync); err != nil {
			logger{db.log}.Fatalf("commit: %v", err)
		}
		if db.unflushed.CompareAndSwap(false, true) {
			db.flusher.Reset(flushAfter)
		}
		return 0, nil
	}
	db.lastSize = b.batch.Len()
	seq = db.durable.begin()
	if err := db.pebble.ApplyNoSyncWait(b.batch, pebble.Sync); err != nil {
		logger{db.log}.Fatalf("commit: %v", err)
	}
	return seq, nil
}

// flushAfter is how long what CommitLater wrote waits for a commit to take it
// along.
const flushAfter = 10 * time.Millisecond

// flush makes durable what CommitLater wrote.
func (db *DB) flush() {
	if err := db.enter(context.Background()); err != nil {
		return // Close has flushed it
	}
	defer db.use.RUnlock()
	db.unflushed.Store(false)
	if err := db.pebble.LogData(nil, pebble.Sync); err != nil {
		logger{db.log}.Fatalf("flush: %v", err)
	}
}

// Wait returns when all that the caller may have seen of the store is durable.
func (db *DB) Wait() { db.durable.wait() }

// durable tells how far commits are durable. They become so in the order in
// which they were made, for they share one log.
type durable struct {
	made    atomic.Uint64 // the last commit that readers may see
	synced  atomic.Uint64 // the last commit that is durable, and all before it
	waiting atomic.Int64

	mu   sync.Mutex
	cond sync.Cond
}

// begin numbers a commit before readers can see it.
func (d *durable) begin() uint64 { return d.made.Add(1) }

// reached notes that a commit is durable.
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
	if d.waiting.Load() > 0 {
		d.mu.Lock()
		d.cond.Broadcast()
		d.mu.Unlock()
	}
}

// wait returns when every commit that the caller may have seen is durable.
func (d *durable) wait() {
	seen := d.made.Load()
	if d.synced.Load() >= seen {
		return
	}
	d.waiting.Add(1)
	defer d.waiting.Add(-1)
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.synced.Load() < seen {
		d.cond.Wait()
	}
}
