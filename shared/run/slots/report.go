package slots

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
)

// reports is the partition of the reports of all workspaces. No workspace's key is
// in it, for those begin with the workspace's id.
const reports = "slots"

// Reports of use.
const (
	countEvery = 5 * time.Second // how often a workspace's slots are counted, by one process
	growsEvery = time.Second     // the same while that changes
	restMost   = time.Minute     // the same for a process that finds them few
	lateAfter  = 2 * time.Second // its time, any process counts
	reportLife = time.Hour
	atOnce     = 2    // held slots of an item that make a process count all
	fewSlots   = 4    // workspaces with fewer are not reported
	fewPart    = 256  // nor those with less than this part of what all may hold
	mostUses   = 1000 // reports that are read
)

// report is the item of a workspace's use, at (slots, <org>).
type report struct {
	table.Key
	At    clock.Millis `table:"at"`
	Due   clock.Millis `table:"due"` // no process counts again before
	Held  int          `table:"held"`
	Wants int          `table:"wants"`
	Asks  int          `table:"asks,omitempty"`
	May   int          `table:"may"`
	Below int          `table:"below"`
	TTL   int64        `table:"ttl"`
}

func reportKey(org string) table.Key { return table.Key{PK: reports, SK: org} }

func (r report) use() use {
	return use{at: r.At.Time(), due: r.Due.Time(), held: r.Held, wants: r.Wants, asks: r.Asks, may: r.May, below: r.Below}
}

// look reads the reports, if what is known of them is older than age. If that
// fails, or another call does, the caller relies on what is known. A workspace of
// which nobody takes or frees slots any more is counted for it, and that of the
// caller if its report is void.
func (s *Slots) look(ctx context.Context, org string, age time.Duration) {
	now := s.Clock.Now()
	if !s.uses.begin(now, age) {
		return
	}
	found, err := s.readReports(ctx, false)
	if err != nil {
		s.Log.WarnContext(ctx, "use of slots not read", "error", err)
	}
	s.uses.end(now, found)
	var late []string
	for other, u := range found {
		if other != org && now.Sub(u.due) > lateAfter {
			late = append(late, other)
		}
	}
	if len(late) > 0 { //guard:share/late false
		other := late[rand.IntN(len(late))] // other processes see the same ones
		s.renew(ctx, other, found[other])
	}
	if u, reported := found[org]; reported && !u.valid(now) { //guard:share/own-late false
		s.renew(ctx, org, u)
	}
}

// renew counts the slots of a workspace whose report is late.
func (s *Slots) renew(ctx context.Context, org string, u use) {
	if _, err := s.recount(ctx, org, u, true, false); err != nil {
		s.Log.WarnContext(ctx, "use of slots not reported", "error", err)
	}
}

// readReports returns the uses of all workspaces.
func (s *Slots) readReports(ctx context.Context, consistent bool) (map[string]use, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	page, err := s.Table.Query(ctx, table.Query{PK: reports, Limit: mostUses, Consistent: consistent})
	if err != nil {
		return nil, fmt.Errorf("read reports of slots: %w", err)
	}
	found := make(map[string]use, len(page.Items))
	for _, item := range page.Items {
		var r report
		if err := table.Unmarshal(item, &r); err != nil {
			return nil, err
		}
		found[r.SK] = r.use()
	}
	return found, nil
}

// occasion is why a workspace's report is looked after.
type occasion struct {
	seen    int  // slots of an item that are held
	pressed bool // there is no slot to take
}

// ask has a workspace's report ask for more slots, and reports whether it may hold
// more than before. Others of the process wait for the answer.
func (s *Slots) ask(ctx context.Context, org string, k *known, before Limit) bool {
	if !s.shared() {
		return false
	}
	k.asking.Lock()
	defer k.asking.Unlock()
	if s.Limit(ctx, org).Slots <= before.Slots {
		s.tend(ctx, org, k, occasion{perItem, true})
	}
	return s.Limit(ctx, org).Slots > before.Slots
}

// tend keeps the report of a workspace's use fresh: if it is due, this process
// counts the slots, unless another one does.
func (s *Slots) tend(ctx context.Context, org string, k *known, o occasion) {
	if !s.shared() {
		return
	}
	u, reported := s.uses.get(org)
	if !reported && o.seen < atOnce {
		return // it may have few
	}
	now := s.Clock.Now()
	k.Lock()
	urgent := o.pressed && now.Sub(k.pressed) >= pressEvery
	wait := now.Before(k.count) && o.seen < 2*max(k.seen, 1) && !urgent
	if !wait { // nobody else of this process
		k.count, k.seen = now.Add(growsEvery), max(o.seen, k.seen)
	}
	if urgent {
		k.pressed = now
	}
	k.Unlock()
	if wait {
		return
	}
	age := lookEvery
	if urgent && now.Sub(u.at) < lookEvery { // it changes
		age = pressEvery
	}
	s.look(ctx, org, age)
	u, reported = s.uses.get(org)
	urgent = urgent && !u.waits() && u.asks == 0
	if reported && now.Before(u.due) && !urgent {
		k.Lock()
		k.count = u.due.Add(rand.N(countEvery / 4))
		k.Unlock()
		return
	}
	next, err := s.recount(ctx, org, u, reported, o.pressed)
	if err != nil {
		s.Log.WarnContext(ctx, "use of slots not reported", "error", err)
	}
	k.Lock()
	defer k.Unlock()
	k.seen = o.seen
	switch {
	case next > 0 || err != nil:
		k.rest, k.count = 0, now.Add(max(next, growsEvery)+rand.N(growsEvery))
	default: // it has few, again
		k.rest = min(max(2*k.rest, countEvery), restMost)
		k.count = now.Add(k.rest)
	}
}

// Tend keeps the report of a workspace's use fresh that has been reported before.
// It is for those who notice that its attempts run.
func (s *Slots) Tend(ctx context.Context, org string) {
	if s.shared() {
		s.look(ctx, org, countEvery)
		s.tend(ctx, org, s.recall(org), occasion{})
	}
}

// recount counts the slots of a workspace, and reports them and how many it may
// hold. was is its report as far as known. It returns when they are to be counted
// again, 0 if they are too few to be reported.
//
// A workspace that asks for slots writes so before it reads the others' reports:
// of several that ask at the same time, each knows of those before it.
func (s *Slots) recount(ctx context.Context, org string, was use, reported, pressed bool) (time.Duration, error) {
	now, own := s.Clock.Now(), s.own(org)
	due := clock.ToMillis(now.Add(countEvery))
	if reported {
		claimed, err := s.claimReport(ctx, org, was, due, pressed || was.waits())
		if err != nil || !claimed {
			return countEvery, err
		}
	}
	held, err := s.read(ctx, org)
	if err != nil {
		return 0, err
	}
	line, err := s.after(ctx, org, "")
	if err != nil {
		return 0, err
	}
	waits := pressed || len(line) > 0
	r := report{Key: reportKey(org), At: clock.ToMillis(now), Held: len(held), Wants: len(held), TTL: now.Add(reportLife).Unix()}
	if waits {
		r.Wants = max(r.Held+1, own)
	}
	if r.Wants < max(fewSlots, s.all()/fewPart) {
		if reported {
			return 0, s.dropReport(ctx, org, due)
		}
		return 0, nil
	}
	others, err := s.others(ctx, org)
	if err != nil {
		return 0, err
	}
	may, fairly := share(s.all(), own, r.Held, waits, others)
	next, still, change := growsEvery, table.IsNew(), r.Held-was.held
	if reported {
		still = table.Eq("due", int64(due))
		if max(change, -change) <= r.Held/8 && waits == was.waits() && (!waits || may == fairly) {
			next = countEvery
		}
	}
	r.May, r.Below, r.Due = may, below(held, own, may), clock.ToMillis(now.Add(next))
	err = s.Table.Put(ctx, table.Put{Item: r, If: still}) //guard:share/replaced drop field If
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		return next, s.remember(org, failed.Old)
	}
	if err != nil {
		return 0, fmt.Errorf("report slots: %w", err)
	}
	s.uses.set(org, r.use())
	return next, nil
}

// claimReport reports whether this process is to count. It is written that the
// workspace asks for what its limit allows, if so.
func (s *Slots) claimReport(ctx context.Context, org string, was use, due clock.Millis, asks bool) (bool, error) {
	do := []table.Action{table.Set("due", int64(due))}
	if asks {
		do = append(do, table.Set("asks", s.own(org))) //guard:share/asks drop
	}
	item, err := s.Table.Update(ctx, table.Update{
		Key: reportKey(org), Do: do,
		If: table.Eq("due", int64(clock.ToMillis(was.due))), //guard:share/counts-once drop
	})
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		return false, s.remember(org, failed.Old) // another process counts, or there is no report any more
	}
	if err != nil {
		return false, fmt.Errorf("claim the report of slots: %w", err)
	}
	return true, s.remember(org, item)
}

// others returns the uses of other workspaces, as they are when it is called.
func (s *Slots) others(ctx context.Context, org string) ([]use, error) {
	now := s.Clock.Now()
	found, err := s.readReports(ctx, true) //guard:share/consistent arg 2 false
	if err != nil {
		return nil, err
	}
	s.uses.end(now, found)
	var out []use
	for other, u := range found {
		if other != org && u.valid(now) { //guard:share/own drop operand 1
			out = append(out, u)
		}
	}
	return out, nil
}

// remember notes what a report says, which may be that there is none.
func (s *Slots) remember(org string, item table.Item) error {
	if item == nil {
		s.uses.drop(org)
		return nil
	}
	var r report
	if err := table.Unmarshal(item, &r); err != nil {
		return err
	}
	s.uses.set(org, r.use())
	return nil
}

// dropReport removes a report, unless it was renewed.
func (s *Slots) dropReport(ctx context.Context, org string, due clock.Millis) error {
	s.uses.drop(org)
	err := s.Table.Delete(ctx, table.Delete{Key: reportKey(org), If: table.Eq("due", int64(due))}) //guard:share/renewed drop field If
	if err != nil && !errors.Is(err, table.ErrConditionFailed) {
		return fmt.Errorf("remove the report of slots: %w", err)
	}
	return nil
}
