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
	growsEvery = time.Second     // the same while it changes fast
	restMost   = time.Minute     // the same for a process that finds them few
	reportLife = 5 * time.Minute // after which it is removed
	atOnce     = 2               // held slots of an item that make a process count all
	fewSlots   = 4               // workspaces with fewer are not reported
	fewPart    = 256             // nor those with less than this part of what all may hold
	mostUses   = 1000            // reports that are read
)

// report is the item of a workspace's use, at (slots, <org>).
type report struct {
	table.Key
	At    clock.Millis `table:"at"`
	Due   clock.Millis `table:"due"` // no process counts again before
	Held  int          `table:"held"`
	Wants int          `table:"wants"`
	TTL   int64        `table:"ttl"`
}

func reportKey(org string) table.Key { return table.Key{PK: reports, SK: org} }

// look reads the reports, if what is known of them is older than age. If that
// fails, or another call does, the caller relies on what is known.
func (s *Slots) look(ctx context.Context, age time.Duration) {
	now := s.Clock.Now()
	if !s.uses.begin(now, age) {
		return
	}
	var found map[string]use
	defer func() { s.uses.end(now, found) }()
	limited, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	page, err := s.Table.Query(limited, table.Query{PK: reports, Limit: mostUses})
	if err != nil {
		s.Log.WarnContext(ctx, "use of other workspaces not read", "error", err)
		return
	}
	found = make(map[string]use, len(page.Items))
	var old []report
	for _, item := range page.Items {
		var r report
		if err := table.Unmarshal(item, &r); err != nil {
			continue
		}
		found[r.SK] = r.use()
		if now.Sub(r.At.Time()) > reportLife {
			old = append(old, r)
		}
	}
	if len(old) > 0 { // they would fill the page, as expired items are removed late
		r := old[rand.IntN(len(old))]
		if err := s.dropReport(limited, r.SK, r.Due); err != nil {
			s.Log.WarnContext(ctx, "old report not removed", "error", err)
		}
	}
}

func (r report) use() use {
	return use{at: r.At.Time(), due: r.Due.Time(), held: r.Held, wants: r.Wants}
}

// tend keeps the report of a workspace's use fresh: if it is due, this process
// counts the slots, unless another one does. seen is how many slots of an item
// are held, queued that a node has begun to wait.
func (s *Slots) tend(ctx context.Context, org string, k *known, seen int, queued bool) {
	if !s.shared() {
		return
	}
	u, reported := s.uses.get(org)
	if !reported && seen < atOnce && !queued {
		return // it may have few
	}
	now := s.Clock.Now()
	k.Lock()
	urgent := queued && !u.waits() && now.Sub(u.at) >= growsEvery && now.Sub(k.counted) >= growsEvery
	wait := now.Before(k.count) && seen < 2*max(k.seen, 1) && !urgent
	if !wait { // nobody else of this process
		k.counted, k.count, k.seen = now, now.Add(growsEvery), max(seen, k.seen)
	}
	k.Unlock()
	if wait {
		return
	}
	s.look(ctx, lookEvery)
	if u, reported = s.uses.get(org); reported && now.Before(u.due) && !(urgent && !u.waits()) {
		k.Lock()
		k.count = u.due.Add(rand.N(countEvery / 4))
		k.Unlock()
		return
	}
	next, err := s.recount(ctx, org, u, reported)
	if err != nil {
		s.Log.WarnContext(ctx, "use of slots not reported", "error", err)
	}
	k.Lock()
	defer k.Unlock()
	k.seen = seen
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
		s.look(ctx, countEvery)
		s.tend(ctx, org, s.recall(org), 0, false)
	}
}

// recount counts the slots of a workspace and reports them. was is its report as far
// as known. It returns when they are to be counted again, 0 if they are too few to
// be reported.
func (s *Slots) recount(ctx context.Context, org string, was use, reported bool) (time.Duration, error) {
	now := s.Clock.Now()
	due := clock.ToMillis(now.Add(countEvery))
	if reported {
		item, err := s.Table.Update(ctx, table.Update{
			Key: reportKey(org), Do: []table.Action{table.Set("due", int64(due))},
			If: table.Eq("due", int64(clock.ToMillis(was.due))), //guard:share/counts-once drop
		})
		if failed, ok := errors.AsType[*table.ConditionError](err); ok {
			return countEvery, s.remember(org, failed.Old) // another process counts, or there is no report any more
		}
		if err != nil {
			return 0, fmt.Errorf("claim the report of slots: %w", err)
		}
		if err := s.remember(org, item); err != nil {
			return 0, err
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
	r := report{Key: reportKey(org), At: clock.ToMillis(now), Due: due, Held: len(held), Wants: len(held), TTL: now.Add(2 * reportLife).Unix()}
	if len(line) > 0 {
		r.Wants = max(r.Wants+1, s.own(org))
	}
	if r.Wants < max(fewSlots, int(s.All/fewPart)) {
		if reported {
			return 0, s.dropReport(ctx, org, due)
		}
		return 0, nil
	}
	next := countEvery
	if change := r.Held - was.held; max(change, -change) > r.Held/8 || r.use().waits() != was.waits() {
		next = growsEvery
	}
	r.Due = clock.ToMillis(now.Add(next))
	still := table.IsNew()
	if reported {
		still = table.Eq("due", int64(due))
	}
	err = s.Table.Put(ctx, table.Put{Item: r, If: still})
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		return next, s.remember(org, failed.Old)
	}
	if err != nil {
		return 0, fmt.Errorf("report slots: %w", err)
	}
	s.uses.set(org, r.use())
	return next, nil
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
