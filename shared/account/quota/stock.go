package quota

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/shared/kit/ratelimit"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
)

// Durations of a quota.
const (
	sliceLife = 30 * time.Second // of a slice of the room
	lease     = 30 * time.Second // how long a process may count before another takes over
	poll      = 20 * time.Millisecond
	patience  = 2 * time.Second // for another process that counts, and for the write that ends a count
	// sparing times the duration of a count is the minimum time to the next.
	sparing = 20
)

// stock is the source of a quota's permits: the remaining room.
type stock struct {
	table table.Table
	clock clock.Clock
	key   table.Key
	limit int64
	whole bool
	again time.Duration
	count Count
	// end is when the limit begins anew, which is then the item's last time; zero for
	// one that does not.
	end time.Time
}

// errCounting means that another process has been counting for long.
var errCounting = errors.New("another process is counting")

// room is the item of a quota.
type room struct {
	table.Key
	Limit int64        `table:"limit"` // that the room was computed for
	Room  int64        `table:"room"`  // permits left; negative if a request was admitted whole
	Epoch int64        `table:"epoch"` // incremented by each count
	Count int64        `table:"count"` // result of the last count
	Again clock.Millis `table:"again"` // no count before this time
	Until clock.Millis `table:"until"` // lease of the process that counts
}

// Attributes of a room used in updates.
const (
	roomLimit = "limit"
	roomLeft  = "room"
	roomEpoch = "epoch"
	roomCount = "count"
	roomAgain = "again"
	roomUntil = "until"
)

// Draw implements ratelimit.Source.
func (s stock) Draw(ctx context.Context, need, want int64) (ratelimit.Slice, error) {
	var waited time.Duration
	for {
		slice, found, err := s.take(ctx, want, table.Ge(roomLeft, want))
		if found == nil || err != nil {
			return slice, err
		}
		at := s.clock.Now()
		switch {
		case found.Limit == s.limit && found.Room >= need:
			want = min(want, found.Room)
		case found.Limit == s.limit && s.whole && found.Room > 0:
			if slice, found, err = s.take(ctx, need, table.Gt(roomLeft, 0)); found == nil || err != nil {
				return slice, err
			}
		case ahead(at, found.Until, lease) > 0: // another process is counting
			if waited >= patience && !s.end.IsZero() {
				return ratelimit.Slice{}, errCounting // it would be taken for a refusal until then
			}
			if waited >= patience {
				return ratelimit.Slice{Again: at.Add(s.again), Count: s.handedOut(found)}, nil
			}
			if err := clock.Sleep(ctx, poll); err != nil {
				return ratelimit.Slice{}, err
			}
			waited += poll
		case found.Limit == s.limit && ahead(at, found.Again, sparing*lease) > 0:
			return ratelimit.Slice{Again: found.Again.Time(), Count: s.handedOut(found)}, nil
		default:
			if slice, err = s.recount(ctx, found, need, want); slice.Permits > 0 || err != nil {
				return slice, err
			}
		}
	}
}

// expires returns when a slice that is drawn now becomes void.
func (s stock) expires() time.Time {
	at := s.clock.Now().Add(sliceLife)
	if !s.end.IsZero() && at.After(s.end) {
		return s.end
	}
	return at
}

// lasts returns the action that has the item deleted some time after its end.
func (s stock) lasts() []table.Action {
	if s.end.IsZero() {
		return nil
	}
	return []table.Action{table.Set(table.TTLAttribute, s.end.Add(grace).Unix())}
}

// handedOut returns the number of things, including permits drawn since the
// last count.
func (s stock) handedOut(r *room) int64 { return max(r.Count, s.limit-r.Room) }

// ahead returns how far at is in the future. It returns 0 if that is more than
// most, which a correct clock cannot cause.
func ahead(now time.Time, at clock.Millis, most time.Duration) time.Duration {
	d := at.Time().Sub(now)
	if at == 0 || d > most {
		return 0
	}
	return max(d, 0)
}

// take takes permits if the condition enough holds; otherwise it returns the
// stored room.
func (s stock) take(ctx context.Context, n int64, enough table.Cond) (ratelimit.Slice, *room, error) {
	item, err := s.table.Update(ctx, table.Update{
		Key: s.key, Do: []table.Action{table.Add(roomLeft, -n)},
		If: table.And(table.Eq(roomLimit, s.limit), enough), //guard:limit/room drop field If
	})
	if err == nil {
		return ratelimit.Slice{Permits: n, Left: max(0, item[roomLeft].Int()), Expires: s.expires()}, nil, nil
	}
	failed, ok := errors.AsType[*table.ConditionError](err)
	if !ok {
		return ratelimit.Slice{}, nil, fmt.Errorf("draw room: %w", err)
	}
	found := &room{}
	return ratelimit.Slice{}, found, table.Unmarshal(failed.Old, found)
}

// recount counts the things, sets the room to the rest of the limit, and takes
// permits if it can. Only processes that find the room used up call it. If it
// returns no permits, the caller must read the room again.
func (s stock) recount(ctx context.Context, was *room, need, want int64) (ratelimit.Slice, error) {
	began, epoch := s.clock.Now(), was.Epoch+1
	// Close the room: permits drawn during the count would be missed.
	_, err := s.table.Update(ctx, table.Update{
		Key: s.key,
		If:  table.Or(table.IsNew(), table.Eq(roomEpoch, was.Epoch)), //guard:limit/counts-once drop field If
		Do: append([]table.Action{
			table.Set(roomEpoch, epoch), table.Set(roomLimit, s.limit),
			table.Set(roomLeft, 0), //guard:limit/closed drop
			table.Set(roomUntil, began.Add(lease).UnixMilli()),
		}, s.lasts()...),
	})
	if errors.Is(err, table.ErrConditionFailed) {
		return ratelimit.Slice{}, nil
	}
	if err != nil {
		err = fmt.Errorf("close room: %w", err) // it may be closed nevertheless
	}
	var count int64
	if err == nil {
		count, err = s.count(ctx)
	}
	now, do := s.clock.Now(), []table.Action{table.Remove(roomUntil)}
	slice := ratelimit.Slice{Expires: s.expires()}
	if err == nil {
		left := max(0, s.limit-count)
		switch {
		case left >= need:
			slice.Permits = min(want, left)
		case s.whole && left > 0:
			slice.Permits = need
		}
		slice.Left = max(0, left-slice.Permits)
		do = append(do, table.Set(roomCount, count), table.Set(roomLeft, left-slice.Permits),
			table.Set(roomAgain, now.Add(max(s.again, sparing*now.Sub(began))).UnixMilli()))
	}
	// Also after an interrupted count, so that others need not wait for the lease.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	_, failed := s.table.Update(ending, table.Update{
		Key: s.key, Do: do,
		If: table.Eq(roomEpoch, epoch), //guard:limit/in-time drop field If
	})
	if errors.Is(failed, table.ErrConditionFailed) { // the lease has expired, and another process counts
		return ratelimit.Slice{}, err
	}
	if err = errors.Join(err, failed); err != nil {
		return ratelimit.Slice{}, fmt.Errorf("count: %w", err)
	}
	return slice, nil
}
