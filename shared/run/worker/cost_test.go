package worker_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
)

// cost runs a flow twice, the second time with warm caches, and returns the
// capacity units of the second run from its acceptance to its end.
func cost(t *testing.T, flow string) (accept, write, read float64) {
	return costOf(t, engine.Succeeded, func(*world) {}, flow)
}

// costOf returns the cost of a flow of scripted tasks that ends with a status.
func costOf(t *testing.T, end engine.Status, script func(*world), flow string) (accept, write, read float64) {
	synctest.Test(t, func(t *testing.T) {
		meter := &table.Meter{}
		var plain table.Table
		w := newWorld(t, func(w *world) {
			w.wrap = func(inner table.Table) table.Table { plain = inner; return table.Metered(inner, meter) }
		})
		script(w)
		w.register("f", flow)
		w.wait(w.run("f").ID)
		synctest.Wait()
		w.kill() // for it may begin before it is accepted
		meter.Reset()
		run := w.run("f")
		total := meter.Usage().Total()
		accept = total.Write
		w.serve()
		w.table = plain // the test's own reads are not counted
		assert.Equal(t, end, w.wait(run.ID).Status)
		total = meter.Usage().Total()
		write, read = total.Write, total.Read
	})
	return accept, write, read
}

// TestUnitsOfChain checks the cost of a task in a chain: three write units and
// one read unit, including its share of the run's own cost.
func TestUnitsOfChain(t *testing.T) {
	t.Parallel()
	tasks := []string{"t0"}
	for i := 1; i < 40; i++ {
		tasks = append(tasks, fmt.Sprintf("t%d: t%d", i, i-1))
	}
	accept, write, read := cost(t, spec(tasks...))
	t.Logf("accepting %v write units; 40 tasks %v write units, %v read units", accept, write-accept, read)
	assert.LessOrEqual(t, accept, 16.0)
	assert.LessOrEqual(t, (write-accept)/40, 3.0)
	assert.LessOrEqual(t, read/40, 1.5)
}

// TestUnitsOfFanOut checks that a fan-out with its join costs six write units a
// task.
func TestUnitsOfFanOut(t *testing.T) {
	t.Parallel()
	tasks, deps := []string{"root"}, ""
	for i := range 100 {
		tasks = append(tasks, fmt.Sprintf("p%d: root", i))
		deps += fmt.Sprintf(" p%d", i)
	}
	accept, write, read := cost(t, spec(append(tasks, "join:"+deps)...))
	t.Logf("accepting %v write units; 102 tasks %v write units, %v read units", accept, write-accept, read)
	assert.LessOrEqual(t, (write-accept)/102, 6.0)
	assert.LessOrEqual(t, read/102, 1.5)
}
