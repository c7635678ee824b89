package runlog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"millrace/shared/platform/blob"
)

// contents is the content of an archive, read on demand.
type contents struct {
	store   *Store
	archive archive

	loaded  bool
	spans   []span
	offsets []int64 // offsets of the members

	member int // the member with these counts, from 1
	counts []count
}

func (c *contents) load(ctx context.Context) error {
	if c.loaded {
		return nil
	}
	spans, err := c.store.index(ctx, c.archive)
	if err != nil {
		return err
	}
	at := int64(0)
	for _, span := range spans {
		c.offsets = append(c.offsets, at)
		at += span.Length
	}
	c.spans, c.loaded = spans, true
	return nil
}

// batch reports whether the archive has a batch. If called in order of ids, it
// reads the header of each member once.
func (c *contents) batch(ctx context.Context, id string) (bool, error) {
	if err := c.load(ctx); err != nil {
		return false, err
	}
	i, found := slices.BinarySearchFunc(c.spans, id, func(s span, id string) int { return strings.Compare(s.First, id) })
	if found || i == 0 {
		return found, nil
	}
	if c.member != i { // the member before the first that begins later
		gz, body, err := c.store.open(ctx, c.archive, c.offsets[i-1], c.spans[i-1].Length)
		if err != nil {
			return false, err
		}
		defer body.Close()
		if c.counts, err = parseField(gz.Extra); err != nil {
			return false, err
		}
		c.member = i
	}
	return slices.ContainsFunc(c.counts, func(n count) bool { return n.id == id }), nil
}

// copy copies the archive to another and inserts new batches. Members without
// new batches are copied unchanged.
func (c *contents) copy(ctx context.Context, in *intake) error {
	if err := c.load(ctx); err != nil {
		return err
	}
	for i := 0; i < len(c.spans); {
		whole := i
		for whole < len(c.spans) && (!in.more || whole+1 < len(c.spans) && c.spans[whole+1].First <= in.batch.SK) {
			whole++
		}
		if whole > i {
			if err := c.transfer(ctx, in.builder, i, whole); err != nil {
				return err
			}
			i = whole
			continue
		}
		if err := c.interleave(ctx, in, i); err != nil {
			return err
		}
		i++
	}
	return nil
}

// transfer copies a range of members unchanged.
func (c *contents) transfer(ctx context.Context, b *builder, from, to int) error {
	if err := b.close(); err != nil {
		return err
	}
	offset, length := c.offsets[from], int64(0)
	for _, span := range c.spans[from:to] {
		length += span.Length
	}
	body, err := c.store.raw(ctx, c.archive, offset, length)
	if err != nil {
		return err
	}
	defer body.Close()
	n, err := io.Copy(&b.out, body)
	if err != nil {
		return err
	}
	if n != length {
		return fmt.Errorf("%w: %d of %d bytes", errDamaged, n, length)
	}
	b.spans = append(b.spans, c.spans[from:to]...)
	return nil
}

// interleave copies a member's batches and inserts new ones.
func (c *contents) interleave(ctx context.Context, in *intake, member int) error {
	data, counts, err := c.store.member(ctx, c.archive, c.offsets[member], c.spans[member].Length)
	if err != nil {
		return err
	}
	for _, n := range counts {
		if err := in.upTo(ctx, n.id); err != nil {
			return err
		}
		if err := in.builder.add(n.id, cutLines(&data, n.events), n.events); err != nil {
			return err
		}
	}
	if member+1 < len(c.spans) {
		return in.upTo(ctx, c.spans[member+1].First)
	}
	return nil
}

// intake adds batches to an archive that is being built.
type intake struct {
	source
	store   *Store
	builder *builder
	last    string // id of the last added batch
	events  int    // number of added events
}

// upTo adds the batches before an id, all for "", each once.
func (in *intake) upTo(ctx context.Context, id string) error {
	for ; in.more && (id == "" || in.batch.SK < id); in.advance() {
		if in.batch.SK == in.last { //guard:log/two-partitions false
			continue
		}
		data, err := in.store.data(ctx, in.batch)
		if err != nil {
			return err
		}
		if err := in.builder.add(in.batch.SK, data, in.batch.Events); err != nil {
			return err
		}
		in.last = in.batch.SK
		in.events += in.batch.Events
	}
	return in.err
}

// raw reads a part of the archive without decoding it.
func (s *Store) raw(ctx context.Context, a archive, offset, length int64) (io.ReadCloser, error) {
	if a.Ref == "" {
		if offset < 0 || length < 0 || offset+length > int64(len(a.Data)) {
			return nil, errDamaged
		}
		return io.NopCloser(bytes.NewReader(a.Data[offset : offset+length])), nil
	}
	body, _, err := s.Blob.Get(ctx, a.Ref, &blob.Range{Offset: offset, Length: length})
	if err != nil {
		return nil, fmt.Errorf("runlog: archive: %w", err)
	}
	return body, nil
}
