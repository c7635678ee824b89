package registrytest

import (
	"context"
	"errors"
	"sync"

	"millrace/shared/platform/table"
)

// ErrFault is the error of a failed write.
var ErrFault = errors.New("registrytest: the table broke")

// Fault is a way in which a write fails.
type Fault int

// The ways in which a write fails.
const (
	Before Fault = iota // nothing was written
	After               // the item was written, but the response is lost
)

// Faults is a table whose n-th write fails, as if the process had died there.
// The writes after it fail too, until Heal.
type Faults struct {
	table.Table

	mu     sync.Mutex
	left   int // writes until one fails; negative: none does
	fault  Fault
	broken bool
	writes int
}

// Wrap returns a table that passes all calls to t, until Break.
func Wrap(t table.Table) *Faults { return &Faults{Table: t, left: -1} }

// Break makes the n-th write from now (0 is the next) fail.
func (f *Faults) Break(n int, fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left, f.fault, f.broken = n, fault, false
}

// Heal ends the failures and reports whether there were any.
func (f *Faults) Heal() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	broken := f.broken
	f.left, f.broken = -1, false
	return broken
}

// Writes returns the number of writes requested so far.
func (f *Faults) Writes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes
}

// next returns whether the next write fails, and whether it is executed
// nevertheless.
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
