package budget

import (
	"context"
	"runtime"

	"millrace/shared/platform/telemetry"
)

// Steps of a piece of work before it needs a turn, and in each turn: 2 ms, so
// that most requests never wait, and 10 ms, the time slice of Go's scheduler.
const (
	allowance = 10_000
	quantum   = 50_000
)

// maxWaitingBytes is the number of bytes that work may hold while it waits for
// its turn. Work that holds more continues to its end, so that only few hold
// much memory.
const maxWaitingBytes = 8 << 20

// turns is the gate of the process. It has half as many turns as there are
// cores, so that short requests find a free core, however much long work there
// is.
var turns = newGate(func() int { return max(1, runtime.GOMAXPROCS(0)/2) })

// pause is called before work exceeds its free steps, and after each turn.
func (b *Budget) pause() error {
	b.look = b.steps + quantum
	if b.ctx.Err() != nil { //guard:budget/cancelled false
		return context.Cause(b.ctx)
	}
	if b.turn && b.bytes > maxWaitingBytes {
		return nil
	}
	b.end()
	if err := b.gate.acquire(b.ctx, telemetry.Workspace(b.ctx)); err != nil {
		return err
	}
	b.turn = true
	return nil
}

// end releases the budget's turn.
func (b *Budget) end() {
	if b.turn {
		b.turn = false
		b.gate.release()
	}
}

// Hold takes a turn for work that is known to be long and does not charge as it
// proceeds. Errors are those of Spend.
func (b *Budget) Hold() error {
	if b.err == nil && !b.turn {
		b.err = b.pause()
	}
	return b.err
}

// Rest releases the turn until the next Spend. Callers must rest before they
// wait for anything that other work may hold, or both might wait forever.
func (b *Budget) Rest() {
	if b.turn { //guard:budget/rest false
		b.end()
		b.look = b.steps
	}
}
