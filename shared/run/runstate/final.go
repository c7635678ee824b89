package runstate

import (
	"encoding/binary"
	"maps"
	"slices"

	"millrace/shared/run/engine"
)

// Final records which nodes of a stopped run were finished when it ended, and
// which others had begun. Later writes to its nodes are not shown: a worker
// that was following the run's graph may still skip a task, or claim one and
// release it at once. It is encoded as runs of node numbers.
type Final []byte

// MakeFinal returns the Final of a run's items as they are when it ends. It is
// never empty, to distinguish a stopped run without finished nodes from a run
// that ended by itself.
func MakeFinal(items map[engine.Node]*Node) Final {
	out := Final{finalVersion}
	for _, want := range []func(*Node) bool{
		func(n *Node) bool { return n.Status.Terminal() },
		func(n *Node) bool { return !n.Status.Terminal() && n.StartedAt != 0 },
	} {
		var numbers []engine.Node
		for _, n := range slices.Sorted(maps.Keys(items)) {
			if want(items[n]) {
				numbers = append(numbers, n)
			}
		}
		out = appendRuns(out, numbers)
	}
	return out
}

// finalVersion is the first byte of a Final.
const finalVersion = 1

// appendRuns appends the number of runs of successive numbers, and for each the
// gap before it and its length.
func appendRuns(out []byte, numbers []engine.Node) []byte {
	var runs []byte
	count, next := uint64(0), engine.Node(0)
	for i := 0; i < len(numbers); {
		first, n := numbers[i], 1
		for i+n < len(numbers) && numbers[i+n] == first+engine.Node(n) {
			n++
		}
		runs = binary.AppendUvarint(runs, uint64(first-next))
		runs = binary.AppendUvarint(runs, uint64(n))
		count, next, i = count+1, first+engine.Node(n), i+n
	}
	return append(binary.AppendUvarint(out, count), runs...)
}

// Shown returns a node's item as readers should see it: for a stopped run as it
// was when the run ended. It is nil for a node without an item.
func (r *Run) Shown(n engine.Node, item *Node) *Node {
	if len(r.Final) == 0 || item == nil || !r.Status.RunEnded() {
		return item
	}
	finished, rest := holds(r.Final[1:], n)
	if finished {
		return item
	}
	shown := &Node{
		Key: item.Key, Status: engine.Cancelled, Attempt: max(item.Attempt, 1), Lost: item.Lost, History: item.History,
		Width: item.Width, List: item.List, ListRef: item.ListRef, ListHash: item.ListHash, Reuse: item.Reuse,
		OK: item.OK, Skipped: item.Skipped, TimedOut: item.TimedOut, Failed: item.Failed,
	}
	if begun, _ := holds(rest, n); begun {
		shown.StartedAt, shown.EndedAt = item.StartedAt, r.EndedAt
	}
	return shown
}

// holds reports whether runs of numbers contain n, and returns the rest after
// them.
func holds(runs []byte, n engine.Node) (bool, []byte) {
	count, size := binary.Uvarint(runs)
	runs = runs[max(size, 0):]
	found, next := false, uint64(0)
	for range count {
		gap, a := binary.Uvarint(runs)
		length, b := binary.Uvarint(runs[max(a, 0):])
		if a <= 0 || b <= 0 {
			return found, nil
		}
		runs = runs[a+b:]
		first := next + gap
		next = first + length
		found = found || uint64(n) >= first && uint64(n) < next
	}
	return found, runs
}
