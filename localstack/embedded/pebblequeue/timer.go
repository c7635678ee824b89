package pebblequeue

import "container/heap"

// timer is the due time of a message or a group.
type timer struct {
	due     int64 // Unix microseconds
	index   int   // index in timers plus one; 0 if it is not set
	message *message
	group   *group
}

func (t *timer) set() bool { return t.index > 0 }

// timers is the heap of a lane's set timers.
type timers []*timer

// set sets or resets a timer.
func (h *timers) set(t *timer, due int64) {
	t.due = due
	if t.set() {
		heap.Fix(h, t.index-1)
		return
	}
	heap.Push(h, t)
}

// stop unsets a timer. It returns false if it was not set.
func (h *timers) stop(t *timer) bool {
	if !t.set() {
		return false
	}
	heap.Remove(h, t.index-1)
	return true
}

// Len is the number of timers.
func (h timers) Len() int { return len(h) }

// Less orders by time.
func (h timers) Less(i, j int) bool { return h[i].due < h[j].due }

// Swap swaps two.
func (h timers) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

// Push adds a timer at the end.
func (h *timers) Push(x any) {
	t := x.(*timer)
	*h = append(*h, t)
	t.index = len(*h)
}

// Pop takes the last.
func (h *timers) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.index = 0
	return t
}
