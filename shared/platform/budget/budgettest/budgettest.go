// Package budgettest checks that budgets charge for the resources that work
// uses.
package budgettest

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"millrace/shared/platform/budget"
)

// What a step may cost in a test: far more than it does on any machine, far
// less than runaway work.
const (
	perStep      = 20 * time.Microsecond // of processor time; about 200 ns are usual
	bytesPerStep = 4 << 10
	// Time that work may take without charging, enough for a garbage collection.
	freeTime  = 300 * time.Millisecond
	freeBytes = 8 << 20
)

// Covered runs work and fails the test unless the steps and bytes charged to b
// cover the processor time and the memory used. Nothing else may run in the
// process meanwhile.
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

// processorTime returns the processor time of the process. A wall clock would
// count that of other processes.
func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
