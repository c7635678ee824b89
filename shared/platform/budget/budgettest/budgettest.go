// Package budgettest holds budgets to what the work really took.
package budgettest

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"millrace/shared/platform/budget"
)

// What a step stands for: far more than it does on any machine, far less than
// what runs away.
const (
	perStep      = 20 * time.Microsecond // of processor time; some 200 ns are usual
	bytesPerStep = 4 << 10
	// of what costs next to nothing, a garbage collection among it
	freeTime  = 300 * time.Millisecond
	freeBytes = 8 << 20
)

// Covered runs work and fails the test unless the steps and bytes that it
// charged to b cover the processor time and the memory that it took. Nothing
// else may run in the process meanwhile.
func Covered(t testing.TB, b *budget.Budget, work func()) {
	t.Helper()
	var before, after runtime.MemStats
	from := b.Used()
	runtime.ReadMemStats(&before)
	start := processorTime(t)
	work()
	took := processorTime(t) - start
	runtime.ReadMemStats(&after)
	used := b.Used()
	steps, bytes := used.Steps-from.Steps, used.Bytes-from.Bytes
	if limit := freeTime + time.Duration(steps)*perStep; took > limit {
		t.Errorf("%d steps took %v of processor time, more than %v", steps, took, limit)
	}
	if built, limit := after.TotalAlloc-before.TotalAlloc, uint64(freeBytes+steps*bytesPerStep+8*bytes); built > limit {
		t.Errorf("%d steps and %d bytes built %d bytes, more than %d", steps, bytes, built, limit)
	}
}

// processorTime is that of the process: a wall clock would count what others do.
func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
