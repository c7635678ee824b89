// Package share divides the slots of a scarce resource, such as workers,
// between workspaces, so that no workspace can take all of them.
//
// A workspace may take a slot while it holds fewer than eight times the number
// of free slots, and the last free one only while it holds none. These are
// dynamic thresholds, by which network switches share a buffer between their
// ports. A workspace that is alone gets eight ninths of the slots. If several
// want more than there are, each gets the same number, and about an eighth of
// that stays free for the next workspace, whose first task starts at once.
// Slots are never revoked, so a workspace that has more than the others keeps
// them until its tasks end, and gets no further slot before.
package share

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// factor is the ratio of held to free slots up to which a workspace may take
// another.
const factor = 8

// Alone returns how many of limit slots a workspace can hold if no other holds
// any.
func Alone(limit int) int {
	n := 0
	for may(n, limit-n) {
		n++
	}
	return n
}

// may reports whether a workspace may take one of the free slots.
func may(held, free int) bool {
	if held == 0 {
		return free > 0
	}
	return free > 1 && held < factor*free //guard:share/reserve drop operand 2
}

// Slots is a set of slots that workspaces share. It is safe for concurrent use.
type Slots struct {
	limit   int
	changed chan struct{}

	mu    sync.Mutex
	free  int // may be negative after Take
	held  map[string]int
	line  []*waiting // workspaces waiting in Acquire, longest first
	asked bool       // First or Free has returned none
}

// waiting is a workspace with calls that wait for a slot.
type waiting struct {
	workspace string
	turns     []chan struct{} // of the calls, longest first
}

// New returns limit slots, at least one.
func New(limit int) *Slots {
	return &Slots{limit: limit, free: limit, held: map[string]int{}, changed: make(chan struct{}, 1)}
}

// take takes a slot for a workspace that may have it.
func (p *Slots) take(workspace string) {
	p.free--
	p.held[workspace]++
}

// Release releases a slot of a workspace.
func (p *Slots) Release(workspace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free++
	if p.held[workspace]--; p.held[workspace] == 0 {
		delete(p.held, workspace)
	}
	for p.grant() {
	}
	if p.asked && p.free > 0 {
		p.asked = false
		select {
		case p.changed <- struct{}{}:
		default:
		}
	}
}

// grant gives a slot to the workspace that holds the fewest among those
// waiting in Acquire. It returns false if that one may have none, in which case
// no other may.
func (p *Slots) grant() bool {
	i := p.least(len(p.line), func(i int) string { return p.line[i].workspace })
	if i < 0 {
		return false
	}
	w := p.line[i]
	p.take(w.workspace)
	close(w.turns[0])
	p.leave(i, 0)
	if len(w.turns) > 0 { // behind those that hold as many
		p.line = append(slices.Delete(p.line, i, i+1), w)
	}
	return true
}

// least returns the index of the workspace that holds the fewest slots, the
// first of several, or -1 if it may not take one.
func (p *Slots) least(n int, workspace func(int) string) int {
	least, fewest := -1, 0
	for i := range n {
		held := p.held[workspace(i)]
		if least < 0 || held < fewest { //guard:share/least drop operand 2
			least, fewest = i, held
		}
		if held == 0 {
			break
		}
	}
	if least >= 0 && !may(fewest, p.free) {
		return -1
	}
	return least
}

// leave removes a waiting call from the line of its workspace.
func (p *Slots) leave(i, turn int) {
	w := p.line[i]
	if w.turns = slices.Delete(w.turns, turn, turn+1); len(w.turns) == 0 {
		p.line = slices.Delete(p.line, i, i+1)
	}
}

// Acquire takes a slot for a workspace and waits until the workspace may have
// one; within a workspace, calls are served first come, first served. If ctx
// ends first, it returns the cause.
func (p *Slots) Acquire(ctx context.Context, workspace string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p.mu.Lock()
	i := slices.IndexFunc(p.line, func(w *waiting) bool { return w.workspace == workspace })
	if i < 0 && may(p.held[workspace], p.free) {
		p.take(workspace)
		p.mu.Unlock()
		return nil
	}
	if i < 0 {
		i = len(p.line)
		p.line = append(p.line, &waiting{workspace: workspace})
	}
	w, turn := p.line[i], make(chan struct{})
	w.turns = append(w.turns, turn)
	p.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	at := slices.Index(w.turns, turn)
	if at >= 0 {
		p.leave(slices.Index(p.line, w), at)
	}
	p.mu.Unlock()
	if at < 0 { // it got a slot at that moment
		p.Release(workspace)
	}
	return context.Cause(ctx)
}

// Try takes a slot for a workspace if it may have one, and reports whether it
// did.
func (p *Slots) Try(workspace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !may(p.held[workspace], p.free) {
		return false
	}
	p.take(workspace)
	return true
}

// First takes a slot for the one of n workspaces that holds the fewest, the
// first of several, and returns its index, or -1 if none of them may have one.
// In that case Changed signals when to try again.
func (p *Slots) First(n int, workspace func(i int) string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.least(n, workspace)
	if i >= 0 {
		p.take(workspace(i))
	} else if n > 0 {
		p.asked = true
	}
	return i
}

// Changed returns a channel that receives when there may be a slot after First
// or Free returned none. It is for a single receiver.
func (p *Slots) Changed() <-chan struct{} { return p.changed }

// Free returns the number of free slots, for callers of Take. If it is 0,
// Changed signals when there are some.
func (p *Slots) Free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = p.asked || p.free <= 0
	return max(p.free, 0)
}

// Take takes a slot, even if the workspace may not have it, for work that has
// already begun.
func (p *Slots) Take(workspace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.take(workspace)
}

// Taken returns the number of taken slots.
func (p *Slots) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit - p.free
}

// Why returns a sentence that explains why a workspace cannot have a slot now,
// or "" if it can. one names a slot, as in "a worker", and that its use, as in
// "that run tasks".
func (p *Slots) Why(workspace, one, that string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := p.held[workspace]
	switch {
	case may(held, p.free):
		return ""
	case p.free > 0:
		return fmt.Sprintf("It waits for %s: %d of the %d %s are this workspace's, the rest is for others.", one, held, p.limit, that)
	}
	return fmt.Sprintf("It waits for %s: all %d %s are taken, %d by this workspace. Who holds fewest gets the next.", one, p.limit, that, held)
}
