package slots

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
)

// window is the number of a run's waiting nodes from which one is chosen, so that
// processes that choose at the same time seldom choose the same.
const window = 8

// Waiting returns the entry in the due index of a node's item that makes it wait
// for a slot: it enters the line and leaves it with the write that gives and
// removes these attributes. A run's nodes are in the order of the time since which
// they wait.
func Waiting(org, run string, n engine.Node, since time.Time) table.DueEntry {
	return table.DueEntry{DuePK: line(org), DueSK: fmt.Sprintf("%s#%013d#%09d", run, since.UnixMilli(), int(n))}
}

func line(org string) string { return org + "#slots" } //guard:tenant/line operand 1 "all"

// Waiter is a node that waits for a slot.
type Waiter struct {
	Run  string
	Node engine.Node
}

// Next returns a node that waits, for a slot that gets free. Runs have turns, and
// of a run's nodes one of the first is returned. The line is eventually
// consistent: it may lack a node that has just entered it, and have one that left.
func (s *Slots) Next(ctx context.Context, org string, number int) (Waiter, bool, error) {
	k := s.recall(org)
	k.Lock()
	turn := k.turn
	k.Unlock()
	found, err := s.after(ctx, org, turn)
	if err == nil && len(found) == 0 && turn != "" {
		found, err = s.after(ctx, org, "") // the turn begins anew
	}
	if err != nil {
		return Waiter{}, false, err
	}
	n := 0
	for n < len(found) && found[n].Run == found[0].Run {
		n++
	}
	turn = ""
	if n > 0 {
		turn = found[0].Run
	}
	k.Lock()
	k.turn = turn
	k.Unlock()
	if n == 0 {
		return Waiter{}, false, nil
	}
	return found[number%n], true, nil
}

// after returns nodes of the runs after one.
func (s *Slots) after(ctx context.Context, org, run string) ([]Waiter, error) {
	q := table.Query{Index: table.Due, PK: line(org), Limit: window}
	if run != "" {
		q.Range = table.After(run + "#~")
	}
	page, err := s.Table.Query(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("read who waits for slots: %w", err)
	}
	out := make([]Waiter, 0, len(page.Items))
	for _, item := range page.Items {
		entry, _ := item.Entry(table.Due)
		if w, ok := waiter(entry.SK); ok {
			out = append(out, w)
		}
	}
	return out, nil
}

func waiter(sk string) (Waiter, bool) {
	run, rest, _ := strings.Cut(sk, "#")
	_, node, ok := strings.Cut(rest, "#")
	n, err := strconv.Atoi(node)
	return Waiter{run, engine.Node(n)}, ok && err == nil
}
