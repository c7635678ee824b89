package sqltable

import (
	"context"

	"millrace/shared/table"
)

// units is what the write consumes of the table; by the larger of the item
// before and after.
func (w *write) units() float64 {
	return table.WriteUnits(max(w.oldSize, w.newSize))
}

// charge counts a single write that was applied.
func (w *write) charge(m *table.Meter, op table.Operation) {
	if m == nil {
		return
	}
	m.Add(op, table.Units{Write: w.units()})
	w.chargeIndexes(m)
}

func (w *write) chargeIndexes(m *table.Meter) {
	if w.check {
		return
	}
	for _, x := range table.Indexes {
		m.AddIndex(x, table.Units{Write: table.IndexWriteUnits(x, w.old, w.new)})
	}
}

// void marks a write of a cancelled transaction: it costs as much as what is
// stored, and nothing of an index.
func (w *write) void() { w.voided = true }

// meterFailed counts a single write whose condition failed.
func meterFailed(ctx context.Context, op table.Operation, w *write) {
	table.MeterFrom(ctx).Add(op, table.Units{Write: table.WriteUnits(w.oldSize)})
}

// chargeAll counts one request of many writes, each rounded by itself.
func chargeAll(m *table.Meter, op table.Operation, writes []*write, factor float64) {
	if m == nil {
		return
	}
	units := 0.0
	for _, w := range writes {
		if w.voided {
			units += factor * table.WriteUnits(w.oldSize)
			continue
		}
		units += factor * w.units()
		w.chargeIndexes(m)
	}
	m.Add(op, table.Units{Write: units})
}
