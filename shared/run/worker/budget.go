package worker

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"
)

// budget bounds the bytes that the attempts of a process use at once besides
// the caches. Requests are granted in order, so that large ones are not starved
// by small ones.
type budget struct {
	whole int64
	free  *semaphore.Weighted
}

func newBudget(whole int64) *budget {
	return &budget{whole: whole, free: semaphore.NewWeighted(whole)}
}

// acquire waits until bytes are free, and takes them until release is called,
// which may be called more than once. A request for more than the whole budget
// gets the whole. A holder must not acquire more, because two holders could
// wait for each other forever. Errors: those of ctx.
func (b *budget) acquire(ctx context.Context, bytes int64) (release func(), err error) {
	n := min(max(bytes, 0), b.whole) //guard:budget/whole arg 1 0
	if err := b.free.Acquire(ctx, n); err != nil {
		return nil, fmt.Errorf("wait for memory: %w", err)
	}
	return sync.OnceFunc(func() { b.free.Release(n) }), nil //guard:budget/once call func(f func()) func() { return f }
}
