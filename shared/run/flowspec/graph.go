package flowspec

import (
	"iter"
	"math/bits"
	"strings"
)

// topological orders the tasks by Kahn's algorithm, without those on or behind
// a cycle.
func (f *Flow) topological() []int {
	open := make([]int, len(f.Tasks))
	order := make([]int, 0, len(f.Tasks))
	for i, d := range f.deps {
		if open[i] = len(d); open[i] == 0 {
			order = append(order, i)
		}
	}
	for next := 0; next < len(order); next++ {
		for _, d := range f.dependents[order[next]] {
			if open[d]--; open[d] == 0 {
				order = append(order, d)
			}
		}
	}
	return order
}

// findCycle returns the tasks of one cycle, each followed by one that depends
// on it; nil if there is none.
func (f *Flow) findCycle() []string {
	const (
		unseen = iota
		onPath
		done
	)
	state := make([]int8, len(f.Tasks))
	next := make([]int, len(f.Tasks)) // next dependency to follow
	for start := range f.Tasks {
		if state[start] != unseen {
			continue
		}
		path := []int{start}
		state[start] = onPath
		for len(path) > 0 {
			top := path[len(path)-1]
			if next[top] == len(f.deps[top]) {
				state[top] = done
				path = path[:len(path)-1]
				continue
			}
			d := f.deps[top][next[top]]
			next[top]++
			switch state[d] {
			case unseen:
				state[d] = onPath
				path = append(path, d)
			case onPath:
				return f.cycle(path, d)
			}
		}
	}
	return nil
}

// cycle returns the names on a path from task first on, in reverse order,
// beginning with the task that is first in the spec.
func (f *Flow) cycle(path []int, first int) []string {
	var ring []int
	for i := len(path) - 1; i >= 0; i-- {
		ring = append(ring, path[i])
		if path[i] == first {
			break
		}
	}
	start := 0
	for i, t := range ring {
		if t < ring[start] {
			start = i
		}
	}
	names := make([]string, 0, len(ring))
	for i := range ring {
		names = append(names, f.Tasks[ring[(start+i)%len(ring)]].Name)
	}
	return names
}

// cycleText formats a cycle: a -> b -> a. It shortens a long one in the middle.
func cycleText(names []string) string {
	shown := append(names[:len(names):len(names)], names[0])
	if len(shown) > 40 {
		shown = append(append(shown[:20:20], "…"), shown[len(shown)-19:]...)
	}
	return "the dependencies form a cycle: " + strings.Join(shown, " -> ")
}

// bitset is a set of task indexes.
type bitset []uint64

func (b bitset) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }
func (b bitset) add(i int)      { b[i/64] |= 1 << (i % 64) }

func (b bitset) union(other bitset) {
	for w, v := range other {
		b[w] |= v
	}
}

func (b bitset) all() iter.Seq[int] {
	return func(yield func(int) bool) {
		for w, v := range b {
			for ; v != 0; v &= v - 1 {
				if !yield(w*64 + bits.TrailingZeros64(v)) {
					return
				}
			}
		}
	}
}

// closure computes the ancestors of every task: 12.5 MB for 10,000 tasks.
func (f *Flow) closure() []bitset {
	n := len(f.Tasks)
	words := (n + 63) / 64
	all := make([]uint64, n*words)
	sets := make([]bitset, n)
	for i := range sets {
		sets[i] = all[i*words : (i+1)*words]
	}
	for _, i := range f.order {
		for _, d := range f.deps[i] {
			sets[i].add(d)
			sets[i].union(sets[d])
		}
	}
	return sets
}
