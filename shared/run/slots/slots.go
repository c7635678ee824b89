// Package slots bounds how many attempts of a workspace are outstanding in
// sandboxes: handed off or running. Each holds a slot, a number below the limit,
// from before its runner is started until it has ended. An attempt that finds none
// waits in a line, see [Waiting].
//
// Sixteen slots are an item, at <org>#slots#<n>: an attribute for each slot that
// is held, with its holder. Taking, passing on and freeing a slot is one
// conditional write each, which may be repeated. The items of a workspace are
// partitions of their own. A slot names the run of its holder, so that a slot that
// a dead process left can be recognized and freed.
package slots

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
)

const (
	perItem   = 16          // slots of one item
	probes    = 3           // items that are read before all are
	fullFor   = time.Second // how long a process relies on having found no free slot
	mostOrgs  = 10_000      // workspaces of which a process remembers where it took the last slot
	mostSlots = 1_000_000   // of a workspace
)

// Config configures Slots.
type Config struct {
	Table table.Table
	Clock clock.Clock
	Log   *slog.Logger
	// Limit returns the number of slots of a workspace; ok is false if it is
	// unlimited.
	Limit func(org string) (n int64, ok bool)
	// All is the number of slots that all workspaces may hold together, each its fair
	// share of them; 0: they have no common limit.
	All int64
}

// Slots are the slots of workspaces. They are safe for concurrent use.
type Slots struct {
	Config
	uses uses

	mu   sync.Mutex
	orgs map[string]*known
}

// known is what a process remembers of a workspace. Losing it only costs requests.
type known struct {
	sync.Mutex
	shard int       // the item from which it takes slots
	held  uint16    // its slots that are held, as far as known, or are just being taken
	full  time.Time // until when it relies on there being no free slot
	below int       // below this limit
	turn  string    // the run that had a turn last, see Next

	asking  sync.Mutex    // while it asks for more; locked before the other one
	count   time.Time     // when it looks after the report of its use again
	pressed time.Time     // when it did because there was no slot
	rest    time.Duration // between that, as long as it has few slots
	seen    int           // slots of an item that were held then
	grew    time.Time     // of the report that tells of room
	room    int           // what is left of that
}

// isFull reports whether there is no free slot, as far as known.
func (k *known) isFull(now time.Time, limit int) bool { return now.Before(k.full) && limit <= k.below }

// New returns the slots of workspaces.
func New(c Config) *Slots { return &Slots{Config: c, orgs: map[string]*known{}} }

// slot returns a slot for a node from now on.
func (s *Slots) slot(number int, run string, n engine.Node) Slot {
	return Slot{Number: number, Run: run, since: fmt.Sprintf("%d/%d", n, s.Clock.Now().UnixMilli())}
}

// Take takes a free slot for a node of a run. It returns none if there is none.
func (s *Slots) Take(ctx context.Context, org, run string, n engine.Node) (Slot, error) {
	k, before := s.recall(org), s.Limit(ctx, org)
	slot, seen, err := s.take(ctx, org, run, n, k)
	if err != nil {
		return Slot{}, err
	}
	if !slot.None() {
		s.tend(ctx, org, k, occasion{seen: seen})
		return slot, nil
	}
	if s.ask(ctx, org, k, before) { //guard:share/again false
		slot, _, err = s.take(ctx, org, run, n, k)
	}
	return slot, err
}

// take is Take with what is known of the limit. It returns how many slots of an
// item are held, too.
func (s *Slots) take(ctx context.Context, org, run string, n engine.Node, k *known) (_ Slot, seen int, _ error) {
	for range perItem {
		number, ok, err := s.pick(ctx, org, k)
		if err != nil {
			return Slot{}, 0, err
		}
		if !ok {
			break
		}
		slot := s.slot(number, run, n)
		took, item, err := s.put(ctx, org, Slot{Number: number}, slot)
		if err != nil {
			return Slot{}, 0, err
		}
		if took {
			return slot, count(item), nil
		}
		k.Lock()
		if k.shard == number/perItem {
			k.held |= heldIn(item)
		}
		k.Unlock()
	}
	slot, err := s.search(ctx, org, run, n, k)
	return slot, perItem, err
}

// pick chooses a slot that seems to be free, and that nobody else in the process
// is taking.
func (s *Slots) pick(ctx context.Context, org string, k *known) (number int, ok bool, err error) {
	k.Lock()
	defer k.Unlock()
	limit := s.Limit(ctx, org).below
	if limit == 0 || k.isFull(s.Clock.Now(), limit) {
		return 0, false, nil
	}
	for read := 0; ; read++ {
		if i, ok := lowest(^k.held & mask(limit, k.shard)); ok {
			k.held |= 1 << i
			return k.shard*perItem + i, true, nil
		}
		if read == probes {
			return 0, false, nil
		}
		k.shard = (k.shard + 1) % items(limit)
		item, err := s.Table.Get(ctx, key(org, k.shard))
		if err != nil && !errors.Is(err, table.ErrNotFound) {
			k.held = ^uint16(0)
			return 0, false, fmt.Errorf("read slots: %w", err)
		}
		k.held = heldIn(item)
	}
}

// search looks for a free slot in all items.
func (s *Slots) search(ctx context.Context, org, run string, n engine.Node, k *known) (Slot, error) {
	k.Lock()
	defer k.Unlock()
	limit := s.Limit(ctx, org).below
	if k.isFull(s.Clock.Now(), limit) {
		return Slot{}, nil
	}
	free, err := s.Free(ctx, org)
	if err != nil {
		return Slot{}, err
	}
	// Other processes look for one as well, and find the same.
	for range min(len(free), probes) {
		slot := s.slot(free[rand.IntN(len(free))], run, n)
		took, item, err := s.put(ctx, org, Slot{Number: slot.Number}, slot)
		if err != nil {
			return Slot{}, err
		}
		if took {
			k.shard, k.held = slot.Number/perItem, heldIn(item)
			return slot, nil
		}
	}
	k.full, k.below = s.Clock.Now().Add(fullFor), limit
	return Slot{}, nil
}

// Peek takes a free slot like Take, but looks at one item only, and not at what
// it remembers: it is for an attempt that has just begun to wait.
func (s *Slots) Peek(ctx context.Context, org, run string, n engine.Node) (Slot, error) {
	s.ask(ctx, org, s.recall(org), Limit{Slots: mostSlots})
	limit := s.Limit(ctx, org).below
	if limit == 0 {
		return Slot{}, nil
	}
	shard := rand.IntN(items(limit))
	item, err := s.Table.Get(ctx, key(org, shard), table.Consistent)
	if err != nil && !errors.Is(err, table.ErrNotFound) {
		return Slot{}, fmt.Errorf("read slots: %w", err)
	}
	i, ok := lowest(^heldIn(item) & mask(limit, shard))
	if !ok {
		return Slot{}, nil
	}
	return s.TakeNumber(ctx, org, shard*perItem+i, run, n)
}

// TakeNumber takes a certain slot for a node of a run. It returns none if it is
// held.
func (s *Slots) TakeNumber(ctx context.Context, org string, number int, run string, n engine.Node) (Slot, error) {
	slot := s.slot(number, run, n)
	took, item, err := s.put(ctx, org, Slot{Number: number}, slot)
	if err != nil || !took {
		return Slot{}, err
	}
	s.tend(ctx, org, s.recall(org), occasion{seen: count(item)})
	return slot, nil
}

// Pass passes a slot on to a node of a run. It returns none if the holder does
// not have it any more, or if the limit has sunk below it.
func (s *Slots) Pass(ctx context.Context, org string, from Slot, run string, n engine.Node) (Slot, error) {
	if from.Number >= s.Limit(ctx, org).below { //guard:slots/lowered false
		return Slot{}, nil
	}
	to := s.slot(from.Number, run, n)
	passed, item, err := s.put(ctx, org, from, to)
	if err != nil || !passed {
		return Slot{}, err
	}
	s.tend(ctx, org, s.recall(org), occasion{seen: count(item)})
	return to, nil
}

// Release frees a slot, if the holder still has it.
func (s *Slots) Release(ctx context.Context, org string, slot Slot) error {
	_, item, err := s.put(ctx, org, slot, Slot{Number: slot.Number})
	if err == nil {
		s.tend(ctx, org, s.recall(org), occasion{seen: count(item)})
	}
	return err
}

// recall returns what is known of a workspace.
func (s *Slots) recall(org string) *known {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.orgs[org]
	if k == nil {
		if len(s.orgs) >= mostOrgs {
			clear(s.orgs)
		}
		// It begins somewhere, with an item that it has not read.
		k = &known{shard: rand.IntN(max(items(s.own(org)), 1)), held: ^uint16(0)}
		s.orgs[org] = k
	}
	return k
}
