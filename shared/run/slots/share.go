package slots

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Parts of what all workspaces may hold, one in so many.
const (
	// reserve is not divided: it is for workspaces that begin, and for those that use
	// too little to be reported.
	reserve = 20
	// start is what a workspace may hold before it has asked for more.
	start = 40
	// growth is the part of what it holds that it may take besides.
	growth = 4
)

// Times of what a process knows of the use of all workspaces.
const (
	lookEvery  = 2 * time.Second        // how old it may be for one that takes slots
	pressEvery = 200 * time.Millisecond // the same if there is none to take
	keepsEvery = 10 * time.Second       // and for one that keeps a slot
	lookTime   = time.Second            // of a request for it
	void       = time.Minute            // age at which a report counts no more
)

// use is what a workspace uses of what all may hold, as of its report.
type use struct {
	at, due time.Time // when it was counted, and when it is to be counted again
	held    int       // slots
	wants   int       // slots that it would hold if it could
	asks    int       // the same while it is being counted; otherwise 0
	may     int       // slots that it may hold
	below   int       // those that are taken and passed on are below it
}

// waits reports whether nodes waited for a slot.
func (u use) waits() bool { return u.wants > u.held }

// valid reports whether the use counts. One from the future is of a clock that is
// wrong.
func (u use) valid(now time.Time) bool {
	age := now.Sub(u.at)
	return age > -void && age < void //guard:share/void drop operand 2
}

// share returns how many slots a workspace may hold that holds some, besides
// others. All of them get what they want or, if that is more than there is, the
// same number, fairly. If others hold more than that yet, it gets what they leave,
// but keeps what it has.
func share(all, own, held int, waits bool, others []use) (may, fairly int) {
	first := max(fewSlots, all/start)
	all -= all / reserve
	wants := make([]int, len(others), len(others)+1)
	for i, u := range others {
		wants[i] = max(u.wants, u.asks)
	}
	fairly = fair(all, own, wants)
	left := all
	for i, u := range others {
		if u.waits() || u.asks > 0 {
			left -= max(
				u.held,
				u.may,                 //guard:share/granted drop
				min(wants[i], fairly), //guard:share/asked drop
			)
		} else {
			left -= u.held + u.held/growth
		}
	}
	if !waits { // what it may need until it is counted again, without asking
		left = min(left, held+held/growth+first)
	}
	return min(fairly, max(held, left, first)), fairly
}

// below returns the number below which slots are taken and passed on, so that with
// those that are held above it, a workspace does not hold more than it may. One
// that holds more already keeps the lowest.
func below(held []Slot, own, may int) int {
	free := may - len(held)
	if free < 0 {
		return may
	}
	taken := make(map[int]bool, len(held))
	for _, slot := range held {
		taken[slot.Number] = true
	}
	n := 0
	for ; n < own; n++ {
		if taken[n] { //guard:share/above false
			continue
		}
		if free == 0 {
			break
		}
		free--
	}
	return n
}

// fair returns how many slots a workspace may hold that wants as many as its own
// limit, besides others that want some: each has what it wants or, if that is more
// than there is, the same number; one in any case.
func fair(all, own int, others []int) int {
	wants := append(others, own)
	slices.Sort(wants)
	for i, n := range wants {
		if sharers := len(wants) - i; n > all/sharers {
			return max(1, min(own, all/sharers))
		}
		all -= n
	}
	return own
}

// uses are the reported uses as a process knows them.
type uses struct {
	mu      sync.Mutex
	of      map[string]use
	read    time.Time // when they were read
	reading bool
}

// begin reports whether the caller is to read the uses, which are older than age.
func (u *uses) begin(now time.Time, age time.Duration) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.reading || now.Sub(u.read) < age && !now.Before(u.read) {
		return false
	}
	u.reading = true
	return true
}

// end stores what was read; nil: it failed, and what was known remains until it is
// void.
func (u *uses) end(now time.Time, of map[string]use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reading, u.read = false, now
	if of != nil {
		u.of = of
	}
}

func (u *uses) get(org string) (use, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	got, ok := u.of[org]
	return got, ok
}

func (u *uses) set(org string, to use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of == nil {
		u.of = map[string]use{}
	}
	u.of[org] = to
}

func (u *uses) drop(org string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.of, org)
}

// Limit is how many slots a workspace may hold at a time.
type Limit struct {
	Slots int
	below int // the slots that may be taken or passed on are below it
	// All is what the workspaces share, if Slots is a share of that and less than the
	// workspace's own limit; otherwise 0.
	All int
}

// Limit returns the number of slots that a workspace may hold: its own limit, or
// its share of what all workspaces may hold.
func (s *Slots) Limit(ctx context.Context, org string) Limit { return s.limit(ctx, org, lookEvery) }

// limit is Limit with what is known of reports, up to an age.
func (s *Slots) limit(ctx context.Context, org string, age time.Duration) Limit {
	own := s.own(org)
	if !s.shared() || own == 0 {
		return Limit{Slots: own, below: own}
	}
	s.look(ctx, org, age)
	u, reported := s.uses.get(org)
	if reported && u.valid(s.Clock.Now()) && u.may < own { //guard:share/limit false
		return Limit{Slots: max(u.may, 1), below: max(u.below, 1), All: s.all()}
	}
	return Limit{Slots: own, below: own}
}

// Keeps reports whether a holder of a slot may use it for another attempt: it may
// not if the slot is above the workspace's limit, which may have sunk.
func (s *Slots) Keeps(ctx context.Context, org string, slot Slot) bool {
	return slot.Number < s.limit(ctx, org, keepsEvery).below
}

// Room returns how many more slots a workspace in which nodes wait may hold than
// it did by its last report, up to some. A process is told of each once.
func (s *Slots) Room(ctx context.Context, org string, most int) int {
	if !s.shared() {
		return 0
	}
	limit := s.Limit(ctx, org).Slots
	u, reported := s.uses.get(org)
	if !reported || !u.valid(s.Clock.Now()) || !u.waits() {
		return 0
	}
	k := s.recall(org)
	k.Lock()
	defer k.Unlock()
	if !k.grew.Equal(u.at) {
		k.grew, k.room = u.at, limit-u.held
	}
	n := max(0, min(most, k.room))
	k.room -= n
	return n
}

// shared reports whether all workspaces together have a limit.
func (s *Slots) shared() bool { return s.All > 0 }

// all is what all workspaces may hold.
func (s *Slots) all() int { return int(min(s.All, mostSlots)) }

// own is the limit of a workspace; see [Slots.Limits] for one that has none.
func (s *Slots) own(org string) int {
	n, limited := s.Config.Limit(org)
	if s.shared() && (!limited || n > s.All) {
		n = s.All
	}
	return int(min(n, mostSlots))
}

// Limits reports whether attempts of a workspace need slots.
func (s *Slots) Limits(org string) bool {
	_, limited := s.Config.Limit(org)
	return limited || s.shared()
}
