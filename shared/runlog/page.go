package runlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"millrace/shared/blob"
	"millrace/shared/ids"
	"millrace/shared/runstate"
	"millrace/shared/table"
)

// The sources of a page.
const (
	Live    = "live"
	Archive = "archive"
)

// The limits of a page.
const (
	DefaultLimit = 500
	MaxLimit     = 10_000
	pageBytes    = 4 << 20
)

// settle is how old a batch is before a page shows it: by then every batch
// with an earlier id is stored too, so a reader that follows misses none.
const settle = 500 * time.Millisecond

// Page is a page of a run's log. Next is where to go on: always set while the
// run is live, even on an empty page; empty at the end of an archive.
type Page struct {
	Events []json.RawMessage
	Next   table.Cursor
	Source string
}

// ErrBadCursor: the cursor is not one of this log's.
var ErrBadCursor = errors.New("runlog: bad cursor")

// Page reads up to limit events (1 to MaxLimit) from a position. ended says
// that the run is over, so that its archive may stand. Errors: ErrBadCursor.
func (s *Store) Page(ctx context.Context, org, run string, ended bool, from table.Cursor, limit int) (Page, error) {
	pos, err := parsePosition(from)
	if err != nil {
		return Page{}, err
	}
	limit = min(max(limit, 1), MaxLimit)
	if ended {
		page, stands, err := s.archivePage(ctx, org, run, pos, limit)
		if stands || err != nil {
			return page, err
		}
	}
	page, err := s.livePage(ctx, org, run, pos, limit)
	if err == nil && len(page.Events) == 0 || err != nil && !errors.Is(err, blob.ErrNotFound) {
		return page, err
	}
	// Batches may have gone into the archive while they were read: a page could
	// have a hole.
	archived, stands, failed := s.archivePage(ctx, org, run, pos, limit)
	if stands || failed != nil {
		return archived, failed
	}
	return page, err
}

func (s *Store) livePage(ctx context.Context, org, run string, pos position, limit int) (Page, error) {
	out := newCollector(Live, pos, limit)
	// What this process is about to store may have an id of any age.
	flight := s.flight(runID{org, run})
	from, until := max(pos.batch, " "), ids.First(s.Clock.Now().Add(-settle))
	if from > until { // another machine's clock is ahead
		return out.end(true), nil
	}
	q := table.Query{PK: runstate.LogPartition(org, run), Range: table.Between(from, until), Limit: min(limit+1, 100), Consistent: true}
	for item, err := range table.All(ctx, s.Table, q) {
		if err != nil {
			return Page{}, fmt.Errorf("runlog: page: %w", err)
		}
		var b batch
		if err := table.Unmarshal(item, &b); err != nil {
			return Page{}, fmt.Errorf("runlog: page: %w", err)
		}
		if flight != "" && b.SK >= flight {
			break
		}
		skip := 0
		if b.SK == pos.batch {
			if skip = pos.offset; skip >= b.Events {
				continue
			}
		}
		if out.full() {
			break
		}
		data, err := s.data(ctx, b)
		if err != nil {
			return Page{}, fmt.Errorf("runlog: page: %w", err)
		}
		if !out.take(b.SK, data, skip) {
			break
		}
	}
	return out.end(true), nil
}

// flight is the id of the batch of a run that is being written here.
func (s *Store) flight(id runID) string {
	b := s.buffer(id, false)
	if b == nil {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.flight
}

// archivePage reads a page of the archive; false if there is none.
func (s *Store) archivePage(ctx context.Context, org, run string, pos position, limit int) (Page, bool, error) {
	a, err := table.Load[archive](ctx, s.Table, runstate.ArchiveKey(org, run), table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return Page{}, false, nil
	}
	if err != nil {
		return Page{}, false, fmt.Errorf("runlog: page: %w", err)
	}
	spans, err := s.index(ctx, a)
	if err != nil {
		return Page{}, true, err
	}
	out := newCollector(Archive, pos, limit)
	offset := int64(0)
	for i, span := range spans {
		at := offset
		offset += span.Length
		if i+1 < len(spans) && spans[i+1].First <= pos.batch {
			continue
		}
		if out.full() {
			return out.end(true), true, nil
		}
		data, counts, err := s.member(ctx, a, at, span.Length)
		if err != nil {
			return Page{}, true, err
		}
		for _, b := range counts {
			own := cutLines(&data, b.events)
			if b.id < pos.batch {
				continue
			}
			skip := 0
			if b.id == pos.batch {
				skip = pos.offset
			}
			if !out.take(b.id, own, skip) {
				return out.end(true), true, nil
			}
		}
	}
	return out.end(false), true, nil
}

// collector fills a page.
type collector struct {
	limit, bytes int
	page         Page
	next         position
}

func newCollector(source string, pos position, limit int) *collector {
	return &collector{limit: limit, page: Page{Source: source, Events: []json.RawMessage{}}, next: pos}
}

// full tells that no further event fits for sure.
func (c *collector) full() bool { return len(c.page.Events) >= c.limit }

// end is the page; more says that there may be more to read.
func (c *collector) end(more bool) Page {
	if more {
		c.page.Next = c.next.cursor()
	}
	return c.page
}

// take adds the lines of a batch from skip on; false when the page is full
// before the batch is.
func (c *collector) take(id string, data []byte, skip int) bool {
	at := 0
	for len(data) > 0 {
		line, rest, _ := bytes.Cut(data, []byte{'\n'})
		data = rest
		if at++; at <= skip {
			continue
		}
		if len(c.page.Events) >= c.limit || (c.bytes+len(line) > pageBytes && c.bytes > 0) {
			return false
		}
		c.bytes += len(line)
		c.page.Events = append(c.page.Events, line[:len(line):len(line)])
		c.next = position{id, at}
	}
	return true
}

// cutLines takes n lines off the front of data.
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

// position is a place in a log: after offset events of a batch.
type position struct {
	batch  string
	offset int
}

func (p position) cursor() table.Cursor {
	return table.Cursor(p.batch + "." + strconv.Itoa(p.offset))
}

func parsePosition(c table.Cursor) (position, error) {
	if c == "" {
		return position{}, nil
	}
	id, offset, ok := strings.Cut(string(c), ".")
	n, err := strconv.Atoi(offset)
	_, dated := ids.Time(id)
	if !ok || err != nil || n < 0 || !dated && (id != "" || n > 0) {
		return position{}, ErrBadCursor
	}
	return position{id, n}, nil
}
