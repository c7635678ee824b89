package runtime

import (
	"context"
	"slices"
	"sync"

	"millrace/shared/platform/queue"
)

// MaxParked is how many handlers of the process may wait without a worker.
const MaxParked = 2000

// permits are the workers of one queue. The poller may start as many handlers as
// there are free permits. It holds none while it waits for messages, so a parked
// handler that goes on meanwhile may make a few more than limit run at once.
type permits struct {
	limit int

	mu       sync.Mutex
	taken    int
	resuming []chan struct{} // parked handlers that go on, first come, first served
	freed    chan struct{}   // holds a value if the poller may look again
}

func newPermits(limit int) *permits {
	return &permits{limit: limit, freed: make(chan struct{}, 1)}
}

// free waits until there are permits and returns how many, up to a batch; 0 when
// ctx ends.
func (p *permits) free(ctx context.Context) int {
	for {
		p.mu.Lock()
		n := p.limit - p.taken
		p.mu.Unlock()
		if n > 0 {
			return min(n, queue.MaxBatch)
		}
		select {
		case <-p.freed:
		case <-ctx.Done():
			return 0
		}
	}
}

// take takes permits that were free.
func (p *permits) take(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken += n
}

// release gives a permit to the handler that waits longest for one, else back.
func (p *permits) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.taken >= p.limit {
		return
	}
	if len(p.resuming) > 0 {
		p.taken++
		close(p.resuming[0])
		p.resuming = slices.Delete(p.resuming, 0, 1)
		return
	}
	select {
	case p.freed <- struct{}{}:
	default:
	}
}

// resume takes a permit for a handler that was parked. When ctx ends first the
// error is its cause.
func (p *permits) resume(ctx context.Context) error {
	p.mu.Lock()
	if p.taken < p.limit {
		p.taken++
		p.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	p.resuming = append(p.resuming, turn)
	p.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	i := slices.Index(p.resuming, turn)
	if i >= 0 {
		p.resuming = slices.Delete(p.resuming, i, i+1)
	}
	p.mu.Unlock()
	if i < 0 { // it had its turn at that moment
		p.release()
	}
	return context.Cause(ctx)
}

// handler is the permit of one message's handler.
type handler struct {
	runtime *Runtime
	permits *permits
	stop    context.Context // ends when the runtime receives no more

	mu   sync.Mutex
	away bool // the permit is given back
}

// Parked implements queue.Parker.
func (h *handler) Parked() int { return int(h.runtime.parked.Load()) }

// Park implements queue.Parker. Of several goroutines of the handler that park at
// once the first gives the permit back.
func (h *handler) Park(ctx context.Context, wait func(context.Context) error) error {
	if h.runtime.parked.Add(1) > MaxParked {
		h.runtime.parked.Add(-1)
		return queue.ErrParked
	}
	defer h.runtime.parked.Add(-1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.stop, func() { cancel(context.Cause(h.stop)) })()
	if !h.leave(true) {
		return wait(ctx)
	}
	h.permits.release()
	err := wait(ctx)
	if gone := h.permits.resume(ctx); gone != nil {
		if err == nil {
			err = gone
		}
		return err
	}
	h.leave(false)
	return err
}

// leave notes whether the permit is given back; false if that was so before.
func (h *handler) leave(away bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed := h.away != away
	h.away = away
	return changed
}

// done gives the permit back when the handler returns.
func (h *handler) done() {
	if h.leave(true) {
		h.permits.release()
	}
}
