// Package share divides the places of something scarce, workers for one, between
// workspaces, so that none of them can take all.
//
// A workspace may take a place while it holds fewer than eight times as many as
// are free, and the last free one only while it holds none: dynamic thresholds, as
// network switches share a buffer between their ports. A workspace that is alone
// gets eight ninths of the places. Of several that want more than there is each
// gets the same, and about an eighth of that stays free: for the next one that
// comes, whose first task begins at once. What is held is never taken away, so a
// workspace that has more than the others keeps it until its tasks end, and gets
// no further place before.
package share

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// factor is how many times the free places a workspace may hold.
const factor = 8

// Alone is how many of so many places a workspace can hold if no other does.
func Alone(limit int) int {
	n := 0
	for may(n, limit-n) {
		n++
	}
	return n
}

// may tells whether a workspace may take one of the free places.
func may(held, free int) bool {
	if held == 0 {
		return free > 0
	}
	return free > 1 && held < factor*free //guard:share/reserve drop operand 2
}

// Places are what is shared. The methods may be called from any goroutine.
type Places struct {
	limit   int
	changed chan struct{}

	mu    sync.Mutex
	free  int // below zero after Take
	held  map[string]int
	line  []*waiting // workspaces that wait in Acquire, the longest first
	asked bool       // First found none, or Free
}

// waiting is a workspace for which none may be taken, and who waits for one.
type waiting struct {
	workspace string
	turns     []chan struct{} // the longest first
}

// New makes so many places, at least one.
func New(limit int) *Places {
	return &Places{limit: limit, free: limit, held: map[string]int{}, changed: make(chan struct{}, 1)}
}

// take takes a place that a workspace may take.
func (p *Places) take(workspace string) {
	p.free--
	p.held[workspace]++
}

// Release gives back a place of a workspace.
func (p *Places) Release(workspace string) {
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

// grant gives a place to the workspace that holds least of those that wait in
// Acquire; false if it may have none, and so no other may.
func (p *Places) grant() bool {
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

// least is the index of the workspace that holds least, the first of several such;
// -1 if it may take no place.
func (p *Places) least(n int, workspace func(int) string) int {
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

// leave takes one who waits out of the line of its workspace.
func (p *Places) leave(i, turn int) {
	w := p.line[i]
	if w.turns = slices.Delete(w.turns, turn, turn+1); len(w.turns) == 0 {
		p.line = slices.Delete(p.line, i, i+1)
	}
}

// Acquire takes a place for a workspace. It waits for one as long as the workspace
// may have none; within a workspace it is first come, first served. When ctx ends
// first the error is its cause.
func (p *Places) Acquire(ctx context.Context, workspace string) error {
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
	if at < 0 { // it had its turn at that moment
		p.Release(workspace)
	}
	return context.Cause(ctx)
}

// Try takes a place for a workspace, if it may have one.
func (p *Places) Try(workspace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !may(p.held[workspace], p.free) {
		return false
	}
	p.take(workspace)
	return true
}

// First takes a place for the one of n workspaces that holds least, of several
// such for the first, and returns its index; -1 if none of them may have one. Then
// Changed tells when to ask again.
func (p *Places) First(n int, workspace func(i int) string) int {
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

// Changed has a value when there may be a place after First or Free had none. It
// is one receiver's.
func (p *Places) Changed() <-chan struct{} { return p.changed }

// Free is how many places are free, for who takes them with Take. 0: Changed tells
// when there are some.
func (p *Places) Free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = p.asked || p.free <= 0
	return max(p.free, 0)
}

// Take takes a place whether the workspace may have it or not, for what is begun
// already.
func (p *Places) Take(workspace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.take(workspace)
}

// Taken is how many places are taken.
func (p *Places) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit - p.free
}

// Why tells people why a workspace can have no place now; empty if it can. one is
// what a place is, as in "a worker", and that what it is for, as in "that run tasks".
func (p *Places) Why(workspace, one, that string) string {
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
