package runlog

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
)

// lookBack is how long after the time in its id a batch may be stored, by the
// reader's clock, to be still seen by a reader that follows the log. Half of it
// is for clock differences, half for retried writes. Later batches are in the
// archive.
const lookBack = 10 * time.Second

// maxShown bounds the number of batches in a cursor. If a log has more within
// lookBack, later ones are shown once they are older than that.
const maxShown = 320

// ErrBadCursor means that the cursor is not one of this log.
var ErrBadCursor = errors.New("runlog: bad cursor")

// position is a position in a log: all batches before one id were shown, and a
// number of events of that one. Of later batches, the listed ones were shown,
// or some of their events.
type position struct {
	batch  string
	offset int
	shown  []mark // in order of time
}

// mark identifies a shown batch: the millisecond of its id, and a hash of the
// id.
type mark struct {
	at     uint64
	hash   uint32 // 24 bits
	events int    // number of shown events; 0: all
}

func markOf(id string, events int) mark {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return mark{millis(id), h.Sum32() & 0xffffff, events}
}

// millis returns the time in an id, 0 if the id is invalid.
func millis(id string) uint64 {
	parsed, err := ulid.ParseStrict(id)
	if err != nil {
		return 0
	}
	return parsed.Time()
}

func (p position) clone() position {
	p.shown = slices.Clone(p.shown)
	return p
}

// find returns the index of a batch's mark, -1 if there is none.
func (p position) find(id string) int {
	if len(p.shown) == 0 {
		return -1
	}
	m := markOf(id, 0)
	return slices.IndexFunc(p.shown, func(s mark) bool { return s.at == m.at && s.hash == m.hash })
}

// done returns how many events of a batch were shown, or that all were.
func (p position) done(id string) (skip int, all bool) {
	switch {
	case id < p.batch:
		return 0, true
	case id == p.batch:
		return p.offset, false
	}
	if i := p.find(id); i >= 0 {
		return p.shown[i].events, p.shown[i].events == 0
	}
	return 0, false
}

// show records that a batch after the position was shown, or the number of its
// shown events, if not 0.
func (p *position) show(id string, events int) {
	if i := p.find(id); i >= 0 {
		p.shown[i].events = events
		return
	}
	m := markOf(id, events)
	at, _ := slices.BinarySearchFunc(p.shown, m.at+1, func(s mark, at uint64) int {
		if s.at < at {
			return -1
		}
		return 1
	})
	p.shown = slices.Insert(p.shown, at, m)
}

// since returns the number of marks whose time is not before that of an id.
func (p position) since(id string) int {
	from := millis(id)
	i, _ := slices.BinarySearchFunc(p.shown, from, func(s mark, at uint64) int {
		if s.at < at {
			return -1
		}
		return 1
	})
	return len(p.shown) - i
}

// advance moves the position after a number of events of a batch.
func (p *position) advance(batch string, offset int) {
	p.batch, p.offset = batch, offset
	p.shown = slices.Clone(p.shown[len(p.shown)-p.since(batch):])
}

// cursor encodes the position: batch, offset and, if there are any, the marks,
// as the difference of their times, doubled, plus 1 if a number of events
// follows, then the hash and that number.
func (p position) cursor() table.Cursor {
	out := p.batch + "." + strconv.Itoa(p.offset)
	if len(p.shown) == 0 {
		return table.Cursor(out)
	}
	var b []byte
	last := millis(p.batch)
	for _, m := range p.shown {
		partial := uint64(min(m.events, 1))
		b = binary.AppendUvarint(b, (m.at-last)<<1|partial)
		b = append(b, byte(m.hash>>16), byte(m.hash>>8), byte(m.hash))
		if partial == 1 {
			b = binary.AppendUvarint(b, uint64(m.events))
		}
		last = m.at
	}
	return table.Cursor(out + "." + base64.RawURLEncoding.EncodeToString(b))
}

func parsePosition(c table.Cursor) (position, error) {
	if c == "" {
		return position{}, nil
	}
	parts := strings.SplitN(string(c), ".", 3)
	if len(parts) < 2 {
		return position{}, ErrBadCursor
	}
	n, err := strconv.Atoi(parts[1])
	_, dated := ids.Time(parts[0])
	if err != nil || n < 0 || !dated && (parts[0] != "" || n > 0) {
		return position{}, ErrBadCursor
	}
	p := position{batch: parts[0], offset: n}
	if len(parts) == 3 {
		return p, p.parse(parts[2])
	}
	return p, nil
}

// parse parses the marks of a cursor.
func (p *position) parse(marks string) error {
	b, err := base64.RawURLEncoding.Strict().DecodeString(marks)
	if err != nil || len(b) == 0 {
		return ErrBadCursor
	}
	last := millis(p.batch)
	for len(b) > 0 {
		delta, n := binary.Uvarint(b)
		if n <= 0 || len(b) < n+3 || delta>>1 > ulid.MaxTime()-last {
			return ErrBadCursor
		}
		m := mark{at: last + delta>>1, hash: uint32(b[n])<<16 | uint32(b[n+1])<<8 | uint32(b[n+2])}
		b = b[n+3:]
		if delta&1 == 1 {
			events, n := binary.Uvarint(b)
			if n <= 0 || events == 0 || events > 1<<31 {
				return ErrBadCursor
			}
			m.events, b = int(events), b[n:]
		}
		p.shown = append(p.shown, m)
		last = m.at
	}
	return nil
}
