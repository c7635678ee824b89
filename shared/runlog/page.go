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
const settle = 300 * time.Millisecond

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
// that the run is over, so that its archive may stand.
func (s *Store) Page(ctx context.Context, org, run string, ended bool, from table.Cursor, limit int) (Page, error) {
	pos, err := parsePosition(from)
	if err != nil {
		return Page{}, err
	}
	if ended {
		a, err := table.Load[archive](ctx, s.Table, runstate.ArchiveKey(org, run), table.Consistent)
		if err == nil {
			return s.archivePage(ctx, a, pos, limit)
		}
		if !errors.Is(err, table.ErrNotFound) {
			return Page{}, fmt.Errorf("runlog: page: %w", err)
		}
	}
	return s.livePage(ctx, org, run, pos, limit)
}

func (s *Store) livePage(ctx context.Context, org, run string, pos position, limit int) (Page, error) {
	out := collector{limit: limit, page: Page{Source: Live, Events: []json.RawMessage{}}, next: pos}
	horizon := ids.First(s.Clock.Now().Add(-settle))
	q := table.Query{PK: runstate.LogPartition(org, run), Range: table.Between(max(pos.batch, " "), horizon), Limit: 100}
	for item, err := range table.All(ctx, s.Table, q) {
		if err != nil {
			return Page{}, fmt.Errorf("runlog: page: %w", err)
		}
		var b batch
		if err := table.Unmarshal(item, &b); err != nil {
			return Page{}, err
		}
		skip := 0
		if b.SK == pos.batch {
			if skip = pos.offset; skip >= b.Events {
				continue
			}
		}
		data, err := s.data(ctx, b)
		if err != nil {
			return Page{}, fmt.Errorf("runlog: page: %w", err)
		}
		if !out.take(b.SK, data, skip) {
			break
		}
	}
	out.page.Next = out.next.cursor()
	return out.page, nil
}

func (s *Store) archivePage(ctx context.Context, a archive, pos position, limit int) (Page, error) {
	out := collector{limit: limit, page: Page{Source: Archive, Events: []json.RawMessage{}}, next: pos}
	members, err := s.index(ctx, a)
	if err != nil {
		return Page{}, err
	}
	for _, m := range members {
		if last := m.Batches[len(m.Batches)-1]; last.ID < pos.batch || (last.ID == pos.batch && pos.offset >= last.Events) {
			continue
		}
		data, err := s.lines(ctx, a, m)
		if err != nil {
			return Page{}, err
		}
		for _, b := range m.Batches {
			own := cutLines(&data, b.Events)
			if b.ID < pos.batch {
				continue
			}
			skip := 0
			if b.ID == pos.batch {
				skip = pos.offset
			}
			if !out.take(b.ID, own, skip) {
				out.page.Next = out.next.cursor()
				return out.page, nil
			}
		}
	}
	return out.page, nil
}

// collector fills a page.
type collector struct {
	limit, bytes int
	page         Page
	next         position
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
		c.page.Events = append(c.page.Events, bytes.Clone(line))
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
	if !ok || err != nil || n < 0 {
		return position{}, ErrBadCursor
	}
	return position{id, n}, nil
}
