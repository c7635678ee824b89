package runlog

import (
	"context"
	"fmt"
	"iter"
	"time"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/table"
	"millrace/shared/run/runstate"
)

// batch is the item of one batch of events. Its sort key is its id. An id
// always stands for the same events, also in the archive. A batch whose writer
// moved to another partition between two attempts may be in both.
type batch struct {
	table.Key
	Events int    `table:"n"`
	Data   string `table:"d,omitempty"` // NDJSON
	Ref    string `table:"ref,omitempty"`
	// Expires, in Unix seconds, removes a batch that was left behind because its
	// writer died before it checked for the archive.
	Expires int64 `table:"ttl"`
}

// keepBatch is longer than the lifetime of any run, and so of any log that is
// not archived.
const keepBatch = 2 * 365 * 24 * time.Hour

// all is the range of all ids.
var all = table.Range{}

// batches iterates over the batches of a run's live log in the order of their
// ids, from the given number of partitions. limit is the number of batches in
// one query, 0 for as many as fit. A batch in two partitions is returned twice.
func (s *Store) batches(ctx context.Context, id runID, shards int, ids table.Range, limit int) iter.Seq2[batch, error] {
	partitions := runstate.LogPartitions(id.org, id.run)
	var each []iter.Seq2[batch, error]
	// The first partition is read last: a writer moves away from it, so that
	// nothing it wrote before is missed.
	for shard := min(max(shards, 1), len(partitions)) - 1; shard >= 0; shard-- {
		q := table.Query{PK: partitions[shard], Range: ids, Limit: limit, Consistent: true}
		each = append(each, s.query(ctx, q))
	}
	return merged(each...)
}

func (s *Store) query(ctx context.Context, q table.Query) iter.Seq2[batch, error] {
	return func(yield func(batch, error) bool) {
		for item, err := range table.All(ctx, s.Table, q) {
			var b batch
			if err == nil {
				err = table.Unmarshal(item, &b)
			}
			if err != nil {
				yield(b, fmt.Errorf("runlog: batches: %w", err))
				return
			}
			if !yield(b, nil) {
				return
			}
		}
	}
}

// merged merges ordered sequences of batches. It ends at the first error.
func merged(each ...iter.Seq2[batch, error]) iter.Seq2[batch, error] {
	if len(each) == 1 {
		return each[0]
	}
	return func(yield func(batch, error) bool) {
		sources := make([]*source, 0, len(each))
		for _, seq := range each {
			next, stop := iter.Pull2(seq)
			defer stop()
			src := &source{next: next}
			if src.advance(); src.err != nil {
				yield(batch{}, src.err)
				return
			}
			sources = append(sources, src)
		}
		for {
			var first *source
			for _, src := range sources {
				if src.more && (first == nil || src.batch.SK < first.batch.SK) {
					first = src
				}
			}
			if first == nil || !yield(first.batch, nil) {
				return
			}
			if first.advance(); first.err != nil {
				yield(batch{}, first.err)
				return
			}
		}
	}
}

// source is a sequence of batches with its next element.
type source struct {
	next  func() (batch, error, bool)
	batch batch
	err   error
	more  bool
}

// advance moves to the next batch. After an error there is none.
func (s *source) advance() {
	s.batch, s.err, s.more = s.next()
	s.more = s.more && s.err == nil
}

// queued returns buffered batches as a sequence.
func queued(queue []*pending) iter.Seq2[batch, error] {
	return func(yield func(batch, error) bool) {
		for _, p := range queue {
			if !yield(p.batch(), nil) {
				return
			}
		}
	}
}

// data returns the events of a batch.
func (s *Store) data(ctx context.Context, b batch) ([]byte, error) {
	if b.Ref == "" {
		return []byte(b.Data), nil
	}
	data, _, err := blob.GetBytes(ctx, s.Blob, b.Ref, 2*backlog)
	return data, err
}

// spent is a batch that was archived.
type spent struct {
	key table.Key
	ref string
}

// clear removes batches, their objects first, because only the items refer to
// them.
func (s *Store) clear(ctx context.Context, left []spent) error {
	var objects []string
	var items []table.Write
	for _, b := range left {
		items = append(items, table.Delete{Key: b.key})
		if b.ref != "" {
			objects = append(objects, b.ref)
		}
	}
	if len(objects) > 0 {
		if err := s.Blob.Delete(ctx, objects...); err != nil {
			return fmt.Errorf("runlog: clear batches: %w", err)
		}
	}
	if len(items) > 0 {
		if err := s.Table.BatchWrite(ctx, items); err != nil {
			return fmt.Errorf("runlog: clear batches: %w", err)
		}
	}
	return nil
}
