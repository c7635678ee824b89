package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
)

// Window is a limit for each window of time, for example each full minute.
// Every window has its own item, which counts the permits drawn.
type Window struct {
	Table table.Table
	Clock clock.Clock
	Key   table.Key // the start of the window is appended to its SK
	Limit int64
	Per   time.Duration
}

// kept is how long the item of a past window is kept.
const kept = time.Hour

// Attributes of a window's item.
const windowUsed = "used"

// Draw implements Source.
func (w Window) Draw(ctx context.Context, need, want int64) (Slice, error) {
	start := w.Clock.Now().Truncate(w.Per)
	end := start.Add(w.Per)
	key := table.Key{PK: w.Key.PK, SK: w.Key.SK + "#" + strconv.FormatInt(start.Unix(), 10)}
	want = min(want, w.Limit)
	for want >= need {
		item, err := w.Table.Update(ctx, table.Update{
			Key: key,
			Do:  []table.Action{table.Add(windowUsed, want), table.SetIfAbsent(table.TTLAttribute, end.Add(kept).Unix())},
			If:  table.Or(table.Absent(windowUsed), table.Le(windowUsed, w.Limit-want)), //guard:limit/window drop field If
		})
		if err == nil {
			return Slice{Permits: want, Left: w.Limit - item[windowUsed].Int(), Expires: end}, nil
		}
		full, ok := errors.AsType[*table.ConditionError](err)
		if !ok {
			return Slice{}, fmt.Errorf("draw permits: %w", err)
		}
		want = min(want-1, w.Limit-full.Old[windowUsed].Int())
	}
	return Slice{Again: end, Count: w.Limit}, nil
}
