package audit

import (
	"context"
	"iter"
	"strconv"
	"time"

	"millrace/shared/platform/table"
)

// Entries iterates over the entries of a workspace from from (included) to to
// (excluded), oldest first; a zero time is no bound. It reads consistently: a
// past day always gives the same entries, once its last transactions have
// completed.
func Entries(ctx context.Context, t table.Table, org string, from, to time.Time) iter.Seq2[Record, error] {
	oldest, before := span(from, to)
	return func(yield func(Record, error) bool) {
		var heads [Shards]struct {
			item table.Item
			next func() (table.Item, error, bool)
		}
		for shard := range heads {
			h := &heads[shard]
			var stop func()
			h.next, stop = iter.Pull2(table.All(ctx, t, table.Query{
				PK: Partition(org, strconv.Itoa(shard)), Range: table.Between(oldest, before), Consistent: true,
			}))
			defer stop()
			var err error
			if h.item, err, _ = h.next(); err != nil {
				yield(Record{}, err)
				return
			}
		}
		for {
			first := &heads[0]
			for shard := range heads {
				if h := &heads[shard]; h.item != nil && (first.item == nil || h.item.Key().SK < first.item.Key().SK) {
					first = h
				}
			}
			if first.item == nil {
				return
			}
			var r Record
			err := table.Unmarshal(first.item, &r)
			if r.ID() >= before || !yield(r, err) || err != nil {
				return
			}
			if first.item, err, _ = first.next(); err != nil {
				yield(Record{}, err)
				return
			}
		}
	}
}
