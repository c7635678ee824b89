package budget

import (
	"context"
	"runtime"
	"sync"

	"golang.org/x/sync/semaphore"
)

// quantum is how many steps are taken between two looks at the context: some
// 10 ms, the time slice of Go's scheduler.
const quantum = 50_000

// hoard is how many bytes work may have built and yet wait for its turn. With
// more it goes on to its end, so that much memory is held by few.
const hoard = 8 << 20

// turns are for work that takes longer than a quantum: there is one less of them
// than there are cores, so that however many such pieces are under way, short
// requests find a core free. They change hands with every quantum, in the order
// of asking.
var turns = sync.OnceValue(func() *semaphore.Weighted {
	return semaphore.NewWeighted(int64(max(1, runtime.GOMAXPROCS(0)-1)))
})

// pause is called after every quantum.
func (b *Budget) pause() error {
	b.look = b.steps + quantum
	if b.ctx.Err() != nil { //guard:budget/cancelled false
		return context.Cause(b.ctx)
	}
	if b.turn && b.bytes > hoard {
		return nil
	}
	b.end()
	if turns().Acquire(b.ctx, 1) != nil {
		return context.Cause(b.ctx)
	}
	b.turn = true
	return nil
}

// end lets others have the budget's turn.
func (b *Budget) end() {
	if b.turn {
		b.turn = false
		turns().Release(1)
	}
}
