package registrytest

import (
	"context"
	"errors"
	"sync"

	"millrace/shared/platform/table"
)

// ErrFault is what a broken write answers.
var ErrFault = errors.New("registrytest: the table broke")

// Fault is how a write breaks.
type Fault int

// The ways to break.
const (
	Before Fault = iota // nothing is written
	After               // it is written, but the answer is lost
)

// Faults is a table whose n-th write breaks, as if the process had died there:
// the writes behind it break too, until Heal.
type Faults struct {
	table.Table

	mu     sync.Mutex
	left   int // writes until it breaks; negative: it does not
	fault  Fault
	broken bool
	writes int
}

// Wrap stands before a table; it does not break until told.
func Wrap(t table.Table) *Faults { return &Faults{Table: t, left: -1} }

// Break makes the n-th write from now (0 is the next) break.
func (f *Faults) Break(n int, fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left, f.fault, f.broken = n, fault, false
}

// Heal makes the table whole and reports whether it had broken.
func (f *Faults) Heal() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	broken := f.broken
	f.left, f.broken = -1, false
	return broken
}

// Writes counts the writes that were asked for so far.
func (f *Faults) Writes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes
}

// next says whether to break, and whether to write all the same.
func (f *Faults) next() (fails, writes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes++
	switch {
	case f.broken:
		return true, false
	case f.left < 0:
		return false, true
	case f.left > 0:
		f.left--
		return false, true
	}
	f.broken = true
	return true, f.fault == After
}

func (f *Faults) do(write func() error) error {
	fails, writes := f.next()
	var err error
	if writes {
		err = write()
	}
	if fails {
		return ErrFault
	}
	return err
}

// Put implements table.Table.
func (f *Faults) Put(ctx context.Context, put table.Put) error {
	return f.do(func() error { return f.Table.Put(ctx, put) })
}

// Update implements table.Table.
func (f *Faults) Update(ctx context.Context, update table.Update) (item table.Item, err error) {
	err = f.do(func() (err error) { item, err = f.Table.Update(ctx, update); return err })
	return item, err
}

// Delete implements table.Table.
func (f *Faults) Delete(ctx context.Context, del table.Delete) error {
	return f.do(func() error { return f.Table.Delete(ctx, del) })
}

// BatchWrite implements table.Table.
func (f *Faults) BatchWrite(ctx context.Context, writes []table.Write) error {
	return f.do(func() error { return f.Table.BatchWrite(ctx, writes) })
}

// Transact implements table.Table.
func (f *Faults) Transact(ctx context.Context, writes ...table.Write) error {
	return f.do(func() error { return f.Table.Transact(ctx, writes...) })
}
