package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Fold writes changes into the database; conn is in a transaction.
type Fold func(conn *sqlite.Conn) error

// foldRetry is how long after a fold that failed the next is tried.
const foldRetry = time.Second

// folding is a fold that is not done yet.
type folding struct {
	group  int64
	names  []string // of owners
	folds  []Fold
	folded []func()
	files  []string // that hold what is folded
}

// Attach makes an owner's tables, or brings them up to date (see [DB.Migrate]),
// and gives replay the records that an earlier process left in the journal, in
// order and in one transaction: it makes those changes in the database. Whoever
// was attached under that name before is detached.
func (db *DB) Attach(name string, keeper Keeper, replay func(conn *sqlite.Conn, record []byte) error, schema ...string) (*Owner, error) {
	if err := db.Migrate(name, schema...); err != nil {
		return nil, err
	}
	db.detach(name)
	if err := db.Sync(); err != nil {
		return nil, err
	}
	if err := db.replay(name, replay); err != nil {
		return nil, fmt.Errorf("store: replay the journal of %s: %w", name, err)
	}
	o := &Owner{db: db, name: name, keeper: keeper}
	db.commits.group.Lock()
	defer db.commits.group.Unlock()
	db.owners[name] = o
	return o, nil
}

// detach ends an owner's commits: what it has committed is folded still.
func (db *DB) detach(name string) {
	db.commits.group.Lock()
	defer db.commits.group.Unlock()
	if o := db.owners[name]; o != nil {
		o.detached.Store(true)
	}
}

// replay folds what an earlier process left of an owner.
func (db *DB) replay(name string, replay func(*sqlite.Conn, []byte) error) error {
	db.folds.Lock()
	defer db.folds.Unlock()
	var mine, rest []record
	for _, r := range db.left.records {
		switch {
		case r.owner != name:
			rest = append(rest, r)
		default:
			mine = append(mine, r)
		}
	}
	if len(mine) > 0 {
		err := db.Write(context.Background(), func(conn *sqlite.Conn) error {
			if err := setFolded(conn, name, db.left.last); err != nil {
				return err
			}
			for _, r := range mine {
				if err := replay(conn, r.data); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	db.left.records = rest
	return db.dropJournals()
}

// dropJournals removes earlier processes' journals once nobody needs them.
func (db *DB) dropJournals() error {
	if len(db.left.records) > 0 {
		return nil
	}
	for _, file := range db.left.files {
		if err := os.Remove(file); err != nil {
			return fmt.Errorf("store: journal: %w", err)
		}
	}
	db.left.files = nil
	return nil
}

// written tells the folder that the journal has grown to size.
func (db *DB) written(size, by int64) {
	if size == by {
		poke(db.dirty)
	}
	if size >= urgent && size-by < urgent {
		poke(db.hurry)
	}
	db.journaled.Store(size)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// awaitRoom waits while the journal is full.
func (db *DB) awaitRoom(ctx context.Context) error {
	for db.journaled.Load() >= full {
		m := &db.commits
		m.mu.Lock()
		if m.room == nil {
			m.room = make(chan struct{})
		}
		room := m.room
		m.mu.Unlock()
		if db.journaled.Load() < full {
			return nil
		}
		poke(db.hurry)
		select {
		case <-room:
		case <-db.stopping:
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// madeRoom wakes those who wait.
func (db *DB) madeRoom() {
	m := &db.commits
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.room != nil {
		close(m.room)
		m.room = nil
	}
}

// folder folds the journal a while after something was written to it.
func (db *DB) folder() {
	defer close(db.folderDone)
	timer := time.NewTimer(0)
	<-timer.C
	for {
		select {
		case <-db.dirty:
		case <-db.hurry:
		case <-db.stopping:
			return
		}
		timer.Reset(db.opts.FoldAfter)
		select {
		case <-timer.C:
		case <-db.hurry:
			timer.Stop()
		case <-db.stopping:
			return
		}
		for {
			err := db.Sync()
			if err == nil {
				break
			}
			db.opts.Log.Error("journal not folded yet", "error", err)
			timer.Reset(foldRetry)
			select {
			case <-timer.C:
			case <-db.stopping:
				return
			}
		}
	}
}

// Sync folds everything that is committed into the database.
func (db *DB) Sync() error {
	db.folds.Lock()
	defer db.folds.Unlock()
	if db.unfolded != nil {
		if err := db.fold(); err != nil {
			return err
		}
	}
	if db.unfolded = db.freeze(); db.unfolded == nil {
		return nil
	}
	return db.fold()
}

// fold folds what is frozen, and removes its journal. The caller holds folds.
func (db *DB) fold() error {
	f := db.unfolded
	err := db.Write(context.Background(), func(conn *sqlite.Conn) error {
		for i, name := range f.names {
			if err := setFolded(conn, name, f.group); err != nil {
				return err
			}
			if err := f.folds[i](conn); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	db.unfolded = nil
	for _, folded := range f.folded {
		folded()
	}
	db.foldCount.Add(1)
	for _, file := range f.files {
		if err := os.Remove(file); err != nil { // the next process does it
			db.opts.Log.Warn("journal not removed", "error", err)
		}
	}
	return nil
}

// freeze takes what is committed and begins a new journal; nil if there is
// nothing.
func (db *DB) freeze() *folding {
	m := &db.commits
	m.group.Lock()
	defer m.group.Unlock()
	files, err := m.journal.rotate()
	if err != nil {
		db.opts.Log.Warn("journal not closed", "error", err)
	}
	if len(files) == 0 {
		return nil
	}
	f := &folding{group: m.last, files: files}
	for name, o := range db.owners {
		fold, folded := o.keeper.Freeze()
		f.names, f.folds, f.folded = append(f.names, name), append(f.folds, fold), append(f.folded, folded)
	}
	db.journaled.Store(0)
	db.madeRoom()
	return f
}

func setFolded(conn *sqlite.Conn, owner string, group int64) error {
	return sqlitex.Execute(conn, "INSERT OR REPLACE INTO folded (owner, grp) VALUES (?, ?)", &sqlitex.ExecOptions{Args: []any{owner, group}})
}

// readFolded reads up to which group each owner is in the database.
func readFolded(conn *sqlite.Conn) (map[string]int64, error) {
	folded := map[string]int64{}
	err := sqlitex.Execute(conn, "SELECT owner, grp FROM folded", &sqlitex.ExecOptions{
		ResultFunc: func(stmt *sqlite.Stmt) error {
			folded[stmt.ColumnText(0)] = stmt.ColumnInt64(1)
			return nil
		},
	})
	return folded, err
}

// closeJournal commits and folds what waits. Nothing is committed after it.
func (db *DB) closeJournal() error {
	m := &db.commits
	m.mu.Lock()
	m.closed = true
	if m.linger != nil {
		m.linger.Stop()
	}
	m.mu.Unlock()
	m.leaders.Wait()
	db.lead() // for what nobody waits for
	close(db.stopping)
	<-db.folderDone
	err := db.Sync()
	m.group.Lock()
	defer m.group.Unlock()
	_, closed := m.journal.rotate() // of a fold that fails
	return errors.Join(err, closed)
}
