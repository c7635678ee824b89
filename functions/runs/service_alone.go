package runs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
)

// A list without a limit may read a million records, so a workspace reads one
// such list at a time. Short lists are exempt, and cost nothing more. The turn
// of a workspace is a lease: it ends by itself if its process dies.
const (
	shortList  = batch            // records of a list that needs no lease
	listLease  = time.Minute      // for which the lease of a list is held without renewal
	renewAfter = 20 * time.Second // since the last renewal
)

// turn is the lease of the one long list that a workspace may read.
type turn struct {
	service *service
	key     table.Key
	owner   string
	renewed time.Time
}

const (
	turnOwner = "owner"
	turnUntil = "until" // Unix millisecond
)

// alone returns the records of a list without a limit. It reads the first
// shortList before it yields one, and takes the workspace's turn if there may be
// more. Errors: errs.TooMany, as the first element.
func (s *service) alone(ctx context.Context, all iter.Seq2[RunRecord, error]) iter.Seq2[RunRecord, error] {
	return func(yield func(RunRecord, error) bool) {
		next, stop := iter.Pull2(all)
		defer stop()
		head := make([]RunRecord, 0, shortList)
		for len(head) < shortList {
			r, err, more := next()
			if err != nil {
				yield(r, err)
				return
			}
			if !more {
				break
			}
			head = append(head, r)
		}
		var mine *turn
		if len(head) == shortList {
			var err error
			if mine, err = s.take(ctx); err != nil {
				yield(RunRecord{}, err)
				return
			}
			defer mine.release(ctx)
		}
		for _, r := range head {
			if !yield(r, nil) {
				return
			}
		}
		if mine == nil {
			return
		}
		for r, err, more := next(); more; r, err, more = next() {
			if err == nil {
				err = mine.renew(ctx)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// take takes the turn of the caller's workspace. Errors: errs.TooMany if another
// list has it.
func (s *service) take(ctx context.Context) (*turn, error) {
	now := s.clock.Now()
	mine := &turn{
		service: s, owner: ids.Token(9), renewed: now,
		key: table.Key{PK: tenant.From(ctx).OrgID + "#long-list", SK: "turn"},
	}
	_, err := s.table.Update(ctx, table.Update{Key: mine.key, Do: mine.hold(now), If: table.Or(
		table.IsNew(),
		table.Le(turnUntil, now.UnixMilli()),
	)})
	held, taken := errors.AsType[*table.ConditionError](err)
	switch {
	case taken && held.Old[turnOwner].Str() == mine.owner: // our own write, whose response was lost
		return mine, nil
	case taken:
		return nil, &errs.Error{Code: errs.TooMany, RetryAfter: 5 * time.Second, Message: fmt.Sprintf(
			"The workspace is reading another list of %d runs or more, one at a time. Give limit, since or until, or try again when it has ended", shortList)}
	case err != nil:
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return mine, nil
}

// hold returns the actions that hold the turn from now on.
func (t *turn) hold(now time.Time) []table.Action {
	until := now.Add(listLease)
	return []table.Action{
		table.Set(turnOwner, t.owner), table.Set(turnUntil, until.UnixMilli()), table.Set(table.TTLAttribute, until.Unix()+1),
	}
}

// renew renews the lease now and then. Errors: errs.TooMany if it was lost to
// another list, because the client read too slowly.
func (t *turn) renew(ctx context.Context) error {
	now := t.service.clock.Now()
	if now.Sub(t.renewed) < renewAfter {
		return nil
	}
	_, err := t.service.table.Update(ctx, table.Update{Key: t.key, Do: t.hold(now), If: table.Eq(turnOwner, t.owner)})
	if errors.Is(err, table.ErrConditionFailed) {
		return errs.New(errs.TooMany, "The list was interrupted: another one of the workspace began")
	}
	if err == nil {
		t.renewed = now
	}
	return err
}

// release ends the turn, also if the client has gone. A turn that is not released
// ends with its lease.
func (t *turn) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := t.service.table.Delete(ctx, table.Delete{Key: t.key, If: table.Eq(turnOwner, t.owner)})
	if err != nil && !errors.Is(err, table.ErrConditionFailed) {
		t.service.log.WarnContext(ctx, "turn of a list not released, its lease ends it", "error", err)
	}
}
