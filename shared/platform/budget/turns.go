package budget

import (
	"context"
	"runtime"

	"millrace/shared/platform/telemetry"
)

// What a piece of work may do before it waits for a turn, and in each turn, in
// steps: 2 ms, so that what most requests bring never waits, and 10 ms, the time
// slice of Go's scheduler.
const (
	allowance = 10_000
	quantum   = 50_000
)

// hoard is how many bytes work may have built and yet wait for its turn. With
// more it goes on to its end, so that much memory is held by few.
const hoard = 8 << 20

// turns are those of the process. There are half as many as cores, so that however
// much long work is under way, short requests find a core free.
var turns = newGate(func() int { return max(1, runtime.GOMAXPROCS(0)/2) })

// pause is called before the work that ends what is free, and after every quantum.
func (b *Budget) pause() error {
	b.look = b.steps + quantum
	if b.ctx.Err() != nil { //guard:budget/cancelled false
		return context.Cause(b.ctx)
	}
	if b.turn && b.bytes > hoard {
		return nil
	}
	b.end()
	if err := b.gate.acquire(b.ctx, telemetry.Workspace(b.ctx)); err != nil {
		return err
	}
	b.turn = true
	return nil
}

// end lets others have the budget's turn.
func (b *Budget) end() {
	if b.turn {
		b.turn = false
		b.gate.release()
	}
}

// Hold takes a turn for what is known to be long and charges nothing as it goes
// on. Errors are those of Spend.
func (b *Budget) Hold() error {
	if b.err == nil && !b.turn {
		b.err = b.pause()
	}
	return b.err
}

// Rest lets others have the turn until more is spent. Whoever waits for something
// that other work may hold calls it before, or both might wait for ever.
func (b *Budget) Rest() {
	if b.turn { //guard:budget/rest false
		b.end()
		b.look = b.steps
	}
}
