package pebblequeue

import "container/heap"

// moments is a heap of the times at which delayed messages become visible. It
// is only for counting; the messages are in the store.
type moments []int64

func (m *moments) push(at int64) { heap.Push(m, at) }

// pass removes the times up to now.
func (m *moments) pass(now int64) {
	for len(*m) > 0 && (*m)[0] <= now {
		heap.Pop(m)
	}
}

// Len is the number of times.
func (m moments) Len() int { return len(m) }

// Less orders by time.
func (m moments) Less(i, j int) bool { return m[i] < m[j] }

// Swap swaps two.
func (m moments) Swap(i, j int) { m[i], m[j] = m[j], m[i] }

// Push adds a time at the end.
func (m *moments) Push(x any) { *m = append(*m, x.(int64)) }

// Pop takes the last.
func (m *moments) Pop() any {
	old := *m
	t := old[len(old)-1]
	*m = old[:len(old)-1]
	return t
}
