package fsck

import (
	"slices"
	"strings"

	"millrace/shared/account/audit"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

// settled are the attributes of a task's item that never change once it is
// finished. The outcomes of its dependencies may still be added again.
var settled = []string{
	runstate.NodeStatus, runstate.NodeAttempt, runstate.NodeOutput, runstate.NodeOutputRef, runstate.NodeError, runstate.NodeErrorType,
	runstate.NodeStarted, runstate.NodeEnded, runstate.NodeWidth, runstate.NodeListHash, runstate.NodeHistory, runstate.NodeCarried, runstate.NodeLease,
}

// leaving are the attributes that are removed, and the expiry that is set, when a
// finished run is completely processed.
var leaving = []string{runstate.RunArchived, runstate.DuePK, runstate.DueSK, table.TTLAttribute}

// Changes returns what must not have changed since an earlier snapshot: a
// finished run or task that differs, an impossible transition, a history, audit
// entry or idempotency key that was changed or removed.
func Changes(before, after *Snapshot) []string {
	for key, was := range before.items {
		is := after.items[key]
		_, rest, ofRun := strings.Cut(key.PK, "#run#")
		_, audited := audit.Workspace(key.PK)
		switch {
		case audited, strings.Contains(key.PK, "#spec#"), strings.Contains(key.PK, "#idempotency#"),
			strings.Contains(key.PK, "#occurrence#"), ofRun && (key.SK == "input" || key.SK == "result"):
			if !same(was, is, nil) {
				after.tell("%v changed from %v to %v", key, was, is)
			}
		case ofRun && key.SK == "archive":
			// Late lines are merged into it.
			if is == nil || is["n"].Int() < was["n"].Int() {
				after.tell("%v had %d events and has %d", key, was["n"].Int(), is["n"].Int())
			}
		case ofRun && key.SK == "run":
			after.run(key, was, is)
		case ofRun && strings.Contains(rest, "#t"):
			after.node(key, was, is)
		}
	}
	return after.report()
}

// same compares all attributes except some.
func same(a, b table.Item, but []string) bool {
	for _, pair := range [][2]table.Item{{a, b}, {b, a}} {
		for attr, v := range pair[0] {
			w, ok := pair[1][attr]
			if (!ok || !v.Equal(w)) && !slices.Contains(but, attr) {
				return false
			}
		}
	}
	return true
}

func (s *Snapshot) run(key table.Key, was, is table.Item) {
	from, to := status(was), status(is)
	switch {
	case is == nil:
		s.tell("%v is gone", key)
	case from.RunEnded() && !same(was, is, leaving):
		s.tell("%v was %s and changed from %v to %v", key, from, was, is)
	case was[runstate.RunArchived].Bool() && !same(was, is, nil):
		s.tell("%v was done with and changed from %v to %v", key, was, is)
	case !reaches(engine.RunTransitions, from, to):
		s.tell("%v went from %s to %s", key, from, to)
	case was[runstate.RunFence].Str() != "" && was[runstate.RunFence].Str() != is[runstate.RunFence].Str():
		s.tell("%v lost its fence %s", key, was[runstate.RunFence].Str())
	}
}

func (s *Snapshot) node(key table.Key, was, is table.Item) {
	from, to := status(was), status(is)
	switch {
	case is == nil:
		s.tell("%v is gone", key)
		return
	case !reaches(engine.TaskTransitions, from, to):
		s.tell("%v went from %q to %q", key, from, to)
	case is[runstate.NodeAttempt].Int() < was[runstate.NodeAttempt].Int():
		s.tell("%v went from attempt %d to %d", key, was[runstate.NodeAttempt].Int(), is[runstate.NodeAttempt].Int())
	}
	if from.Terminal() {
		for _, attr := range settled {
			v, had := was[attr]
			w, has := is[attr]
			if had != has || had && !v.Equal(w) {
				s.tell("%v was %s and its %s changed from %v to %v", key, from, attr, v, w)
			}
		}
	}
	if v, had := was[runstate.NodeWidth]; had && !v.Equal(is[runstate.NodeWidth]) {
		s.tell("%v had the width %v and has %v", key, v, is[runstate.NodeWidth])
	}
	history := is[runstate.NodeHistory].List()
	for i, v := range was[runstate.NodeHistory].List() {
		if i >= len(history) || !v.Equal(history[i]) {
			s.tell("%v had another history: %v, now %v", key, was[runstate.NodeHistory], is[runstate.NodeHistory])
			break
		}
	}
	for _, set := range []string{runstate.NodeOK, runstate.NodeSkipped, runstate.NodeTimedOut, runstate.NodeFailed} {
		for _, m := range was[set].Members() {
			if !slices.Contains(is[set].Members(), m) {
				s.tell("%v had been told of node %s in %s and no longer is", key, m, set)
			}
		}
	}
}

func status(i table.Item) engine.Status { return engine.Status(i["st"].Str()) }

// reaches reports whether transitions lead from one status to another.
func reaches(steps map[engine.Status][]engine.Status, from, to engine.Status) bool {
	seen := []engine.Status{from}
	for i := 0; i < len(seen); i++ {
		if seen[i] == to {
			return true
		}
		for _, next := range steps[seen[i]] {
			if !slices.Contains(seen, next) {
				seen = append(seen, next)
			}
		}
	}
	return false
}
