package store

import (
	"context"
	"fmt"
	"runtime/debug"

	"zombiezen.com/go/sqlite"
)

// job is one write on its way to a commit.
type job struct {
	fn       func(*sqlite.Conn) error
	done     chan struct{}
	err      error
	panicked any
}

// Write runs fn in the writer and returns its error, or nil once its group is
// committed (and on the disk, with FullSync).
//
// Writes that wait at the same time share one transaction. fn must therefore
// check everything before its first write: an error returned before any write
// needs no rollback. An error or panic after a write rolls the whole group back
// and runs its members again, each alone; so fn must be able to run twice.
// fn must not call Write, and must not end the transaction.
//
// If ctx ends first Write returns its error, and the write may still happen.
func (db *DB) Write(ctx context.Context, fn func(*sqlite.Conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j := &job{fn: fn, done: make(chan struct{})}
	if err := db.submit(j); err != nil {
		return err
	}
	select {
	case <-j.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if j.panicked != nil {
		panic(j.panicked)
	}
	return j.err
}

func (db *DB) submit(j *job) error {
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return ErrClosed
	}
	db.pending = append(db.pending, j)
	db.mu.Unlock()
	db.signal()
	return nil
}

func (db *DB) signal() {
	select {
	case db.wake <- struct{}{}:
	default:
	}
}

// write is the writer goroutine: it sleeps until something is pending.
func (db *DB) write() {
	defer close(db.stopped)
	for range db.wake {
		jobs, closed := db.take()
		if len(jobs) > 0 {
			db.commit(jobs)
			clear(jobs)
		}
		if closed {
			return
		}
	}
}

// take returns what is pending. Once closed is set nothing more is added.
func (db *DB) take() (jobs []*job, closed bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	jobs = db.pending
	db.pending, db.spare = db.spare[:0], jobs
	return jobs, db.closed
}

// commit runs jobs as one transaction and tells those who wait.
func (db *DB) commit(jobs []*job) {
	if !db.group(jobs) {
		for i := range jobs {
			db.single(jobs[i])
		}
	}
	for _, j := range jobs {
		close(j.done)
	}
}

// group runs jobs in one transaction; false if it had to be rolled back.
func (db *DB) group(jobs []*job) bool {
	conn := db.writer
	if err := exec(conn, "BEGIN IMMEDIATE"); err != nil {
		for _, j := range jobs {
			j.err = err
		}
		return true
	}
	for _, j := range jobs {
		before := totalChanges(conn)
		db.run(j)
		if j.err == nil && j.panicked == nil {
			continue
		}
		// SQLite may have rolled back by itself (disk full, I/O error).
		if conn.AutocommitEnabled() || before < 0 || totalChanges(conn) != before {
			db.rollback()
			if len(jobs) == 1 {
				return true
			}
			db.opts.Log.Warn("write failed after its first change; group runs again singly",
				"group", len(jobs), "error", j.err)
			return false
		}
	}
	if err := exec(conn, "COMMIT"); err != nil {
		db.rollback()
		for _, j := range jobs {
			if j.err == nil {
				j.err = err
			}
		}
		return true
	}
	db.groups.Add(1)
	db.writes.Add(int64(len(jobs)))
	return true
}

func (db *DB) single(j *job) {
	j.err, j.panicked = nil, nil
	db.group([]*job{j})
}

// run runs one job and catches its panic, which is its caller's, not the writer's.
func (db *DB) run(j *job) {
	defer func() {
		if p := recover(); p != nil {
			j.panicked = fmt.Sprintf("%v\n\nin the writer:\n%s", p, debug.Stack())
		}
	}()
	j.err = j.fn(db.writer)
}

func (db *DB) rollback() {
	db.rollbacks.Add(1)
	if !db.writer.AutocommitEnabled() {
		if err := exec(db.writer, "ROLLBACK"); err != nil {
			db.opts.Log.Error("rollback failed", "error", err)
		}
	}
}
