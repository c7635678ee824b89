package runlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"millrace/shared/blob"
	"millrace/shared/runstate"
	"millrace/shared/table"
)

// archive is the item of a run's archive: one gzip stream of NDJSON in members,
// with an index of where they are. Small ones stand in the item.
type archive struct {
	table.Key
	Events   int    `table:"n"`
	Index    string `table:"ix,omitempty"` // JSON of []span
	IndexRef string `table:"ixr,omitempty"`
	Data     []byte `table:"d,omitempty"`
	Ref      string `table:"ref,omitempty"`
}

// span is where one gzip member of an archive is: behind those before it.
type span struct {
	First  string `json:"f"` // its first batch
	Length int64  `json:"l"`
}

// spent is a batch that the archive makes needless.
type spent struct{ id, ref string }

// maxSpent is how many batches are remembered while an archive is made; more
// are looked up again.
const maxSpent = 10_000

// Archive turns the run's batches into its archive. It is repeatable: if the
// archive stands it only clears batches that are left. Nothing may be written
// to the log of a run that is over; what still is does not show.
//
// What is still in memory goes straight into the archive: the log of a short
// run is written once.
func (s *Store) Archive(ctx context.Context, org, run string) error {
	b := s.buffer(runID{org, run}, false)
	if b == nil {
		return s.archive(ctx, org, run, nil)
	}
	if err := b.lock(ctx); err != nil {
		return err
	}
	defer b.unlock()
	b.disarm()
	err := s.drain(ctx, b) // what failed before may be stored already, under an id of its own
	if err == nil {
		b.take(s.Clock.Now())
		if b.size() > BatchBytes {
			err = s.drain(ctx, b)
		}
	}
	if err == nil {
		err = s.archive(ctx, org, run, b.queue)
	}
	if err != nil {
		s.rearm(b)
		return err
	}
	b.queue = nil
	s.retire(b, true)
	return nil
}

func (s *Store) archive(ctx context.Context, org, run string, tail []*pending) error {
	left := []spent(nil)
	_, err := s.Table.Get(ctx, runstate.ArchiveKey(org, run), table.Consistent)
	switch {
	case errors.Is(err, table.ErrNotFound):
		if left, err = s.build(ctx, org, run, tail); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("runlog: archive: %w", err)
	}
	if left != nil {
		return s.clear(ctx, org, run, left)
	}
	return s.sweep(ctx, org, run)
}

// build makes the archive of the batches there are and of those in memory, and
// returns the former, nil if they are too many.
func (s *Store) build(ctx context.Context, org, run string, tail []*pending) ([]spent, error) {
	b := builder{}
	defer func() { _ = b.out.Close() }()
	left := []spent{}
	for stored, err := range s.batches(ctx, org, run) {
		if err != nil {
			return nil, err
		}
		data, err := s.data(ctx, stored)
		if err != nil {
			return nil, fmt.Errorf("runlog: archive: %w", err)
		}
		if err := b.add(stored.SK, data, stored.Events); err != nil {
			return nil, fmt.Errorf("runlog: archive: %w", err)
		}
		if len(left) < maxSpent {
			left = append(left, spent{stored.SK, stored.Ref})
		}
	}
	for _, p := range tail {
		if err := b.add(s.draw(), p.data, p.events); err != nil {
			return nil, fmt.Errorf("runlog: archive: %w", err)
		}
	}
	if err := b.close(); err != nil {
		return nil, fmt.Errorf("runlog: archive: %w", err)
	}
	if err := s.store(ctx, org, run, &b); err != nil {
		return nil, err
	}
	if len(left) == maxSpent {
		return nil, nil
	}
	return left, nil
}

// store writes the archive. The first to write the item wins: objects have
// names of their own, so that of two who archive at once the second, who may
// have seen but half the batches, spoils nothing.
func (s *Store) store(ctx context.Context, org, run string, b *builder) error {
	index, err := json.Marshal(b.spans)
	if err != nil {
		return fmt.Errorf("runlog: store archive: %w", err)
	}
	item := archive{Key: runstate.ArchiveKey(org, run), Events: b.events}
	var objects []string
	if b.out.Size()+int64(len(index)) <= InlineBytes {
		if item.Data, err = b.out.Bytes(); err != nil {
			return fmt.Errorf("runlog: store archive: %w", err)
		}
		item.Index = string(index)
	} else {
		name := runstate.Object(org, run, "log-"+s.draw())
		item.Ref = name + ".ndjson.gz"
		objects = append(objects, item.Ref)
		body, err := b.out.Reader()
		if err != nil {
			return fmt.Errorf("runlog: store archive: %w", err)
		}
		if _, err := s.Blob.Put(ctx, item.Ref, body, b.out.Size(), blob.PutOptions{ContentType: "application/gzip"}); err != nil {
			return fmt.Errorf("runlog: store archive: %w", err)
		}
		if len(index) <= InlineBytes {
			item.Index = string(index)
		} else {
			item.IndexRef = name + ".index.json"
			objects = append(objects, item.IndexRef)
			if _, err := blob.PutBytes(ctx, s.Blob, item.IndexRef, index, blob.PutOptions{ContentType: "application/json"}); err != nil {
				return fmt.Errorf("runlog: store archive: %w", err)
			}
		}
	}
	err = s.Table.Put(ctx, table.Put{Item: item, If: table.IsNew()})
	if errors.Is(err, table.ErrConditionFailed) {
		return s.lost(ctx, item, objects)
	}
	if err != nil {
		return fmt.Errorf("runlog: store archive: %w", err)
	}
	return nil
}

// lost removes the objects of an archive that came second. The first may be our
// own, when the answer to an attempt was lost.
func (s *Store) lost(ctx context.Context, own archive, objects []string) error {
	won, err := table.Load[archive](ctx, s.Table, own.Key, table.Consistent)
	if err != nil {
		return fmt.Errorf("runlog: store archive: %w", err)
	}
	if len(objects) == 0 || won.Ref == own.Ref {
		return nil
	}
	if err := s.Blob.Delete(ctx, objects...); err != nil {
		return fmt.Errorf("runlog: store archive: %w", err)
	}
	return nil
}

// sweep clears all batches of a run.
func (s *Store) sweep(ctx context.Context, org, run string) error {
	left := []spent{}
	for stored, err := range s.batches(ctx, org, run) {
		if err != nil {
			return err
		}
		if left = append(left, spent{stored.SK, stored.Ref}); len(left) == 1000 {
			if err := s.clear(ctx, org, run, left); err != nil {
				return err
			}
			left = left[:0]
		}
	}
	return s.clear(ctx, org, run, left)
}

// clear removes batches: their objects first, which only the items name.
func (s *Store) clear(ctx context.Context, org, run string, left []spent) error {
	var objects []string
	var items []table.Write
	for _, b := range left {
		items = append(items, table.Delete{Key: table.Key{PK: runstate.LogPartition(org, run), SK: b.id}})
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
