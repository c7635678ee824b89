// Package fsck checks a deployment's data against the engine's invariants, item
// by item, from outside: it reads a [Snapshot] and reports what is wrong.
//
// [Snapshot.Check] checks what holds after every single write, and therefore
// also for a store whose server was killed. [Snapshot.CheckIdle] also checks
// what holds when no work is left, and [Changes] compares two states of a
// store.
package fsck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/registry"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
)

// Snapshot is all data of a deployment at one moment.
type Snapshot struct {
	At       time.Time
	Messages []Message
	// Entries are the stored index entries, by index, entry key and item key; nil
	// if the store derives them from the items.
	Entries map[Entry]bool

	objects  blob.Store // nil: not checked
	items    map[table.Key]table.Item
	parts    map[string][]table.Item // by partition, sorted
	runs     map[RunID]*Run
	view     view // items for the service's readers
	problems []string
}

// Entry is an item's key in an index.
type Entry struct {
	Index    string
	At, Item table.Key
}

// Message is a message of a queue.
type Message struct {
	Queue, Group string
	Due          time.Time // not delivered before
	Body         []byte
}

// Dead reports whether the message was given up after too many deliveries.
func (m Message) Dead() bool { return strings.HasSuffix(m.Queue, queue.Dead("")) }

// RunID identifies a run.
type RunID struct{ Org, ID string }

// Run is a run with all of its data.
type Run struct {
	runstate.Run
	Flow  *flowspec.Flow
	Plan  *engine.Plan
	Input runstate.InputItem
	Nodes map[engine.Node]*runstate.Node
	Log   []string // keys of remaining batches
}

// New returns a snapshot of items read at a moment. objects is the object
// store; if it is nil, objects are not checked, and flows stored there are
// unknown.
func New(ctx context.Context, at time.Time, items []table.Item, objects blob.Store) (*Snapshot, error) {
	s := &Snapshot{
		At: at, objects: objects, items: make(map[table.Key]table.Item, len(items)), parts: map[string][]table.Item{}, runs: map[RunID]*Run{},
	}
	s.view = view{items: s.items}
	for _, item := range items {
		key := item.Key()
		s.items[key] = item
		s.parts[key.PK] = append(s.parts[key.PK], item)
	}
	for _, part := range s.parts {
		slices.SortFunc(part, func(a, b table.Item) int { return strings.Compare(a.Key().SK, b.Key().SK) })
	}
	for key := range s.items {
		if key.SK != "run" {
			continue
		}
		if org, id, ok := runstate.ParseRunKey(key.PK); ok {
			s.load(ctx, RunID{org, id})
		}
	}
	return s, nil
}

// Runs returns the runs, oldest first.
func (s *Snapshot) Runs() []*Run {
	ids := slices.SortedFunc(maps.Keys(s.runs), func(a, b RunID) int { return strings.Compare(a.ID+a.Org, b.ID+b.Org) })
	out := make([]*Run, len(ids))
	for i, id := range ids {
		out[i] = s.runs[id]
	}
	return out
}

// Run returns a run, nil if it does not exist.
func (s *Snapshot) Run(id RunID) *Run { return s.runs[id] }

// Items returns the items of a partition, by sort key.
func (s *Snapshot) Items(pk string) []table.Item { return s.parts[pk] }

// Len returns the number of items.
func (s *Snapshot) Len() int { return len(s.items) }

func (s *Snapshot) tell(format string, args ...any) {
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

// report returns the problems found since the last report, without duplicates.
func (s *Snapshot) report() []string {
	out := s.problems
	s.problems = nil
	slices.Sort(out)
	return slices.Compact(out)
}

// load reads a run with its nodes.
func (s *Snapshot) load(ctx context.Context, id RunID) {
	run := &Run{Nodes: map[engine.Node]*runstate.Node{}}
	if err := table.Unmarshal(s.items[runstate.RunKey(id.Org, id.ID)], &run.Run); err != nil {
		s.tell("run %s cannot be read: %v", id.ID, err)
		return
	}
	s.runs[id] = run
	if input, ok := s.items[runstate.InputKey(id.Org, id.ID)]; !ok {
		s.tell("run %s has no input", id.ID)
	} else if err := table.Unmarshal(input, &run.Input); err != nil {
		s.tell("input of run %s cannot be read: %v", id.ID, err)
	}
	from := s.objects
	if from == nil {
		from = absent{}
	}
	flow, err := registry.LoadFlow(ctx, s.view, from, id.Org, run.SpecHash)
	if errors.Is(err, errAbsent) {
		return
	}
	if err != nil {
		s.tell("flow of run %s: %v", id.ID, err)
		return
	}
	plan, err := engine.PlanOf(run.Run.Plan, engine.Defs(flow))
	if err != nil {
		s.tell("plan of run %s: %v", id.ID, err)
		return
	}
	run.Flow, run.Plan = flow, plan
	last := plan.Static() + len(plan.Maps())*(plan.MaxWidth()+plan.MaxWidth()/2)
	for shard := 0; shard*runstate.NodesPerShard < last; shard++ {
		for _, item := range s.parts[runstate.NodePartition(id.Org, id.ID, shard)] {
			n := &runstate.Node{}
			if err := table.Unmarshal(item, n); err != nil {
				s.tell("run %s: %v cannot be read: %v", id.ID, item.Key(), err)
				continue
			}
			run.Nodes[n.Number()] = n
		}
	}
	for _, pk := range runstate.LogPartitions(id.Org, id.ID) {
		for _, item := range s.parts[pk] {
			run.Log = append(run.Log, item.Key().SK)
		}
	}
}

// view is a table of the snapshot's items that supports single reads.
type view struct {
	table.Table
	items map[table.Key]table.Item
}

// Get reads an item.
func (v view) Get(_ context.Context, key table.Key, _ ...table.ReadOption) (table.Item, error) {
	item, found := v.items[key]
	if !found {
		return nil, table.ErrNotFound
	}
	return item, nil
}

// absent is an object store that is not checked.
type absent struct{ blob.Store }

var errAbsent = errors.New("fsck: the object store is not checked")

// Get fails.
func (absent) Get(context.Context, string, *blob.Range) (io.ReadCloser, blob.Object, error) {
	return nil, blob.Object{}, errAbsent
}

// logs returns the log store of the snapshot.
func (s *Snapshot) logs() *runlog.Store {
	return &runlog.Store{Table: s.view, Blob: s.objects, Clock: clock.Func(func() time.Time { return s.At }), Log: slog.New(slog.DiscardHandler)}
}
