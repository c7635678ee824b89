package runlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
)

// The sources of a page.
const (
	Live    = "live"
	Archive = "archive"
)

// Limits of a page.
const (
	DefaultLimit = 500
	MaxLimit     = 10_000
	pageBytes    = 4 << 20
)

// settle is the minimum age of a batch in a page: by then most batches with
// earlier ids are stored, too, so that a follower gets events in the order in
// which they happened. Batches that are stored later are shown when they arrive
// (see lookBack).
const settle = 500 * time.Millisecond

// pageTries is the number of attempts to read a page while the log changes.
const pageTries = 10

// Page is one page of a run's log. Next is the position of the following page:
// always set while the run is live, even on an empty page; empty at the end of
// an archive.
type Page struct {
	Events []json.RawMessage
	Next   table.Cursor
	Source string
}

// Page reads up to limit events (1 to MaxLimit) from a position. ended tells
// that the run has ended, so that its archive may exist. Errors: ErrBadCursor.
//
// A follower of a live log gets each event once, including those of a writer
// whose clock is up to five seconds behind, which arrive late. Therefore each
// page reads again what the previous ones have shown of the last ten seconds,
// at most 320 batches: a run that writes two small batches a second costs a
// follower two consistent reads a page, of the batches and of the log's head; a
// log that is spread over partitions costs one for each and two of the head. A
// log with more than 32 batches a second is shown up to ten seconds late.
func (s *Store) Page(ctx context.Context, org, run string, ended bool, from table.Cursor, limit int) (Page, error) {
	return s.Filtered(ctx, org, run, ended, from, limit, Filter{})
}

// Filtered is like [Store.Page] for the events that match a filter. It reads at
// most 16 MB of the log.
func (s *Store) Filtered(ctx context.Context, org, run string, ended bool, from table.Cursor, limit int, filter Filter) (Page, error) {
	pos, err := parsePosition(from)
	if err != nil {
		return Page{}, err
	}
	if from == "" && !filter.Since.IsZero() {
		// The id of a batch is no earlier than its events, except for differences
		// between clocks.
		pos.batch = ids.First(filter.Since.Add(-lookBack))
	}
	id := runID{org, run}
	limit = min(max(limit, 1), MaxLimit)
	head := archive{}
	for range pageTries {
		if ended && !head.stands() {
			if head, err = s.head(ctx, id); err != nil {
				return Page{}, err
			}
		}
		if head.stands() {
			page, err := s.archivePage(ctx, head, pos, limit, filter)
			if !errors.Is(err, blob.ErrNotFound) {
				return page, err
			}
			head, ended = archive{}, true // the archive was replaced meanwhile
			continue
		}
		shards := max(head.Shards, s.knows(id).shards)
		page, err := s.livePage(ctx, id, shards, pos, limit, filter)
		if err != nil && !errors.Is(err, blob.ErrNotFound) {
			return page, err
		}
		// Batches may have been archived while they were read, so a page could have a
		// gap. Or the log was spread.
		var failed error
		if head, failed = s.head(ctx, id); failed != nil {
			return Page{}, failed
		}
		if !head.stands() && head.Shards <= shards {
			return page, err
		}
	}
	return Page{}, fmt.Errorf("runlog: page: %w", errChanged)
}

func (s *Store) livePage(ctx context.Context, id runID, shards int, pos position, limit int, filter Filter) (Page, error) {
	out := collector{limit: limit, pos: pos.clone(), page: Page{Source: Live}, filter: filter}
	now := s.Clock.Now()
	// Batches after this one may still arrive.
	floor, until := ids.First(now.Add(-lookBack)), ids.First(now.Add(-settle))
	if flight := s.flight(id); flight != "" { // of any age
		floor = min(floor, flight)
	}
	from := max(pos.batch, " ")
	if from > until { // another machine's clock is ahead
		return out.end(true), nil
	}
	whole := true
	for b, err := range s.batches(ctx, id, shards, table.Between(from, until), min(limit+1+len(pos.shown), 1000)) {
		if err != nil {
			return Page{}, fmt.Errorf("runlog: page: %w", err)
		}
		skip, done := out.pos.done(b.SK)
		if done || skip >= b.Events {
			continue
		}
		if out.full() || skip == 0 && b.SK >= floor && out.pos.since(floor) >= maxShown {
			whole = b.SK >= floor
			break
		}
		data, err := s.data(ctx, b)
		if err != nil {
			return Page{}, fmt.Errorf("runlog: page: %w", err)
		}
		if whole = out.take(b.SK, floor, data, skip); !whole {
			whole = b.SK >= floor
			break
		}
	}
	if whole && floor > out.pos.batch {
		out.pos.advance(floor, 0)
	}
	return out.end(true), nil
}

// flight returns the id of the batch of a run that this process is writing.
func (s *Store) flight(id runID) string {
	b := s.buffer(id, false)
	if b == nil {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.flight
}

// archivePage reads a page of the archive.
func (s *Store) archivePage(ctx context.Context, a archive, pos position, limit int, filter Filter) (Page, error) {
	spans, err := s.index(ctx, a)
	if err != nil {
		return Page{}, err
	}
	out := collector{limit: limit, pos: pos.clone(), page: Page{Source: Archive}, filter: filter}
	offset := int64(0)
	for i, span := range spans {
		at := offset
		offset += span.Length
		if i+1 < len(spans) && spans[i+1].First <= pos.batch {
			continue
		}
		if out.full() {
			return out.end(true), nil
		}
		data, counts, err := s.member(ctx, a, at, span.Length)
		if err != nil {
			return Page{}, err
		}
		for _, b := range counts {
			own := cutLines(&data, b.events)
			skip, done := out.pos.done(b.id)
			if done || skip >= b.events {
				continue
			}
			if !out.take(b.id, "~", own, skip) {
				return out.end(true), nil
			}
		}
	}
	return out.end(false), nil
}

// collector fills a page.
type collector struct {
	limit, bytes int
	page         Page
	pos          position // after what was taken
	filter       Filter
	read         int // bytes, including those of events that do not match
}

// full reports whether no further event fits.
func (c *collector) full() bool { return len(c.page.Events) >= c.limit }

// end returns the page. more tells that there may be more to read.
func (c *collector) end(more bool) Page {
	if c.page.Events == nil {
		c.page.Events = []json.RawMessage{}
	}
	if more {
		c.page.Next = c.pos.cursor()
	}
	return c.page
}

// take adds the events of a batch from skip on. It returns false if the page is
// full before the batch is done. No batch arrives any more before floor and
// before the collected ones.
func (c *collector) take(id, floor string, data []byte, skip int) bool {
	at, more := 0, true
	for len(data) > 0 {
		line, rest, _ := bytes.Cut(data, []byte{'\n'})
		if at >= skip {
			if c.full() || c.bytes+len(line) > pageBytes && c.bytes > 0 || c.read > filterBytes {
				more = false
				break
			}
			c.read += len(line)
			if c.filter.keeps(line) {
				c.bytes += len(line)
				c.page.Events = append(c.page.Events, line[:len(line):len(line)])
			}
		}
		data = rest
		at++
	}
	switch {
	case at <= skip:
	case id == c.pos.batch:
		c.pos.offset = at
	case id < floor:
		c.pos.advance(id, at)
	case more:
		c.pos.show(id, 0)
	default:
		c.pos.show(id, at)
	}
	return more
}

// cutLines removes n lines from the front of data.
func cutLines(data *[]byte, n int) []byte {
	end := 0
	for range n {
		i := bytes.IndexByte((*data)[end:], '\n')
		if i < 0 {
			end = len(*data)
			break
		}
		end += i + 1
	}
	own := (*data)[:end]
	*data = (*data)[end:]
	return own
}
