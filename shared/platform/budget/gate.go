package budget

import (
	"context"
	"slices"
	"sync"
)

// gate limits how many pieces of work proceed at once. Workspaces take turns in
// rotation, and within a workspace turns are first come, first served: however
// many pieces of work a workspace has in line, another workspace waits for at
// most one of them.
type gate struct {
	turns func() int // called once, when the first turn is taken

	mu    sync.Mutex
	begun bool
	free  int
	line  []*queue // of the workspaces that wait, the next one first
}

// queue holds the waiting work of a workspace, oldest first.
type queue struct {
	workspace string
	waiting   []chan struct{}
}

func newGate(turns func() int) *gate { return &gate{turns: turns} }

// acquire takes a turn for work of a workspace, empty for the service's own
// work. If ctx ends first it returns the cause.
func (g *gate) acquire(ctx context.Context, workspace string) error {
	turn := g.enter(workspace)
	if turn == nil {
		return nil
	}
	defer waits(ctx)()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	if !g.leave(workspace, turn) { // it was given its turn at that moment
		g.release()
	}
	return context.Cause(ctx)
}

// enter takes a turn and returns nil, or joins the line and returns a channel
// that is closed when the turn comes.
func (g *gate) enter(workspace string) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.begun {
		g.begun, g.free = true, g.turns()
	}
	if g.free > 0 {
		g.free--
		return nil
	}
	turn := make(chan struct{})
	i := slices.IndexFunc(g.line, func(q *queue) bool { return q.workspace == workspace })
	if i < 0 {
		i = len(g.line)
		g.line = append(g.line, &queue{workspace: workspace})
	}
	g.line[i].waiting = append(g.line[i].waiting, turn)
	return turn
}

// leave gives up a place in line. It returns false if the turn has come
// already.
func (g *gate) leave(workspace string, turn chan struct{}) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.line, func(q *queue) bool { return q.workspace == workspace })
	if i < 0 {
		return false
	}
	q := g.line[i]
	at := slices.Index(q.waiting, turn)
	if at < 0 {
		return false
	}
	if q.waiting = slices.Delete(q.waiting, at, at+1); len(q.waiting) == 0 {
		g.line = slices.Delete(g.line, i, i+1)
	}
	return true
}

// release hands a turn to the next in line.
func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.line) == 0 {
		g.free++
		return
	}
	q := g.line[0] // moves to the back of the line afterwards
	close(q.waiting[0])
	q.waiting = slices.Delete(q.waiting, 0, 1)
	g.line = slices.Delete(g.line, 0, 1)
	if len(q.waiting) > 0 {
		g.line = append(g.line, q)
	}
}
