package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Keeper holds an owner's newest changes in memory until they are folded into
// the database. Its methods are called by the store, never two at a time, except
// that what Freeze returns is called while others are.
type Keeper interface {
	// Publish lets everybody see what the group staged: it is in the journal.
	Publish()
	// Discard forgets what the group staged.
	Discard()
	// Freeze returns what there is to fold: fold writes it into the database, in
	// a transaction, and may be called again if that fails; folded is called once
	// the transaction is committed. No Freeze follows before that.
	Freeze() (fold Fold, folded func())
}

// ErrDetached: the owner has been attached anew.
var ErrDetached = errors.New("store: owner is detached")

// Owner commits changes of one owner's tables.
type Owner struct {
	db       *DB
	name     string
	keeper   Keeper
	detached atomic.Bool
}

// change is one commit on its way.
type change struct {
	owner *Owner
	stage func(record []byte) ([]byte, error)
	async bool
	wake  chan struct{} // closed when the change is done, or its caller is to lead
	lead  bool

	err      error
	panicked any
	staged   bool
}

// committer puts changes into the journal: whoever comes first leads, and takes
// along what waits.
type committer struct {
	mu        sync.Mutex // for what follows, never held for long
	waiting   []*change
	spare     []*change
	leading   bool
	linger    *time.Timer
	lingering bool
	closed    bool
	leaders   sync.WaitGroup

	group   sync.Mutex // held while a group is made, and while keepers freeze
	journal journal
	last    int64 // number of the last group
	frame   []byte
	touched []*Owner
	room    chan struct{} // closed when a fold made room; nil while nobody waits
}

// The sizes of a journal.
const (
	urgent    = 4 << 20  // bytes after which a fold is begun at once
	full      = 16 << 20 // bytes after which commits wait for a fold: small rows take ten times as much memory
	keepFrame = 1 << 20  // a larger frame's memory is given back
)

// Commit runs stage and returns its error, or nil once what it made is in the
// journal (and on the disk, with FullSync): then it survives the death of this
// process.
//
// stage sees everything that was committed or staged before it, alone: it reads,
// checks, has its keeper stage what changes, and appends to record what Replay
// needs to make the same change again. An error, or nothing appended, means that
// it staged nothing. It must be able to run twice.
func (o *Owner) Commit(ctx context.Context, stage func(record []byte) ([]byte, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := o.db.awaitRoom(ctx); err != nil {
		return err
	}
	c := &change{owner: o, stage: stage}
	leads, err := o.db.commits.enter(c)
	if err != nil {
		return err
	}
	if !leads {
		<-c.wake
		leads = c.lead
	}
	if leads {
		o.db.lead()
	}
	if c.panicked != nil {
		panic(c.panicked)
	}
	return c.err
}

// CommitAsync hands stage to the next group, or after Options.Linger to one of
// its own. Its error is logged. A kill before that loses it.
func (o *Owner) CommitAsync(stage func(record []byte) ([]byte, error)) error {
	c := &change{owner: o, stage: stage, async: true}
	m := &o.db.commits
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.waiting = append(m.waiting, c)
	o.db.arm()
	return nil
}

// arm has somebody lead in a while. The caller holds mu.
func (db *DB) arm() {
	m := &db.commits
	switch {
	case m.lingering:
	case m.linger == nil:
		m.lingering, m.linger = true, time.AfterFunc(db.opts.Linger, db.lingered)
	default:
		m.lingering = true
		m.linger.Reset(db.opts.Linger)
	}
}

// lingered commits what nobody waits for.
func (db *DB) lingered() {
	m := &db.commits
	m.mu.Lock()
	m.lingering = false
	if m.leading || m.closed || len(m.waiting) == 0 {
		m.mu.Unlock()
		return
	}
	m.leading = true
	m.leaders.Add(1)
	m.mu.Unlock()
	db.lead()
}

// enter adds a change to those that wait, and tells whether its caller leads.
func (m *committer) enter(c *change) (leads bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false, ErrClosed
	}
	m.waiting = append(m.waiting, c)
	if !m.leading {
		m.leading = true
		m.leaders.Add(1)
		return true, nil
	}
	c.wake = make(chan struct{})
	return false, nil
}

// lead makes one group of what waits, and hands the lead on.
func (db *DB) lead() {
	m := &db.commits
	m.group.Lock()
	m.mu.Lock()
	batch := m.waiting
	m.waiting, m.spare = m.spare[:0], nil
	m.mu.Unlock()
	db.makeGroup(batch)
	m.group.Unlock()
	for i, c := range batch {
		if c.wake != nil && !c.lead {
			close(c.wake)
		}
		batch[i] = nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spare = batch[:0]
	for _, c := range m.waiting {
		if !c.async {
			c.lead = true
			close(c.wake)
			return
		}
	}
	if m.leading {
		m.leading = false
		m.leaders.Done()
	}
	if len(m.waiting) > 0 {
		db.arm()
	}
}

// makeGroup stages changes in order and writes them as one frame.
func (db *DB) makeGroup(batch []*change) {
	m := &db.commits
	for again := true; again; {
		again = false
		m.frame = append(m.frame[:0], make([]byte, frameHeader)...)
		m.frame = binary.AppendUvarint(m.frame, uint64(m.last+1))
		m.touched = m.touched[:0]
		for _, c := range batch {
			if c.panicked != nil {
				continue
			}
			m.touch(c.owner)
			if db.stage(c); c.panicked != nil {
				again = true // what it staged cannot be told from the rest
				break
			}
		}
		if again {
			m.discard()
		}
	}
	wrote := false
	for _, c := range batch {
		wrote = wrote || c.staged
	}
	if wrote {
		err := m.journal.write(m.frame)
		if err != nil {
			m.discard()
			for _, c := range batch { // those that staged nothing have seen what is lost
				c.err = err
			}
		} else {
			m.last++
			for _, o := range m.touched {
				o.keeper.Publish()
			}
			db.commitGroups.Add(1)
			db.commitChanges.Add(int64(len(batch)))
			db.written(m.journal.bytes(), int64(len(m.frame)))
		}
	}
	if cap(m.frame) > keepFrame {
		m.frame = nil
	}
	for _, c := range batch {
		if c.async {
			db.report(c)
		}
	}
}

func (m *committer) touch(o *Owner) {
	for _, other := range m.touched {
		if other == o {
			return
		}
	}
	m.touched = append(m.touched, o)
}

func (m *committer) discard() {
	for _, o := range m.touched {
		o.keeper.Discard()
	}
}

// stage runs one change and catches its panic, which is its caller's.
func (db *DB) stage(c *change) {
	defer func() {
		if p := recover(); p != nil {
			c.staged, c.panicked = false, fmt.Sprintf("%v\n\nin a commit:\n%s", p, debug.Stack())
		}
	}()
	if c.staged, c.err = false, nil; c.owner.detached.Load() {
		c.err = ErrDetached
		return
	}
	before := len(db.commits.frame)
	db.commits.frame, c.err = appendRecord(db.commits.frame, c.owner.name, c.stage)
	c.staged = len(db.commits.frame) > before
}

// report logs the failure of a change that nobody waits for.
func (db *DB) report(c *change) {
	if c.panicked != nil {
		c.err = fmt.Errorf("store: panic in commit: %v", c.panicked)
	}
	if c.err != nil {
		db.opts.Log.Error("asynchronous commit failed", "owner", c.owner.name, "error", c.err)
	}
}
