package pebblequeue

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strconv"

	"millrace/localstack/embedded/store"
)

// numbers is how many message numbers are reserved in the store at once.
const numbers = 1 << 16

var errDamaged = errors.New("pebblequeue: the store is damaged")

func lanePrefix(queue string) []byte { return store.AppendPart([]byte{store.MessageSpace}, queue) }

// position is a message's position in its queue. It does not change until the
// message is deleted.
type position struct {
	group string
	at    int64 // Unix microseconds from which it is visible
	seq   int64 // its number
}

func (p position) before(o position) bool { return p.at < o.at || p.at == o.at && p.seq < o.seq }

func (p position) key(lane []byte) []byte {
	b := make([]byte, 0, len(lane)+len(p.group)+20)
	b = store.AppendPart(append(b, lane...), p.group)
	b = binary.BigEndian.AppendUint64(b, uint64(p.at))
	return binary.BigEndian.AppendUint64(b, uint64(p.seq))
}

// parsePosition parses the rest of a key after its queue's prefix.
func parsePosition(rest []byte) (position, error) {
	group, rest, ok := store.CutPart(rest)
	if !ok || len(rest) != 16 {
		return position{}, errDamaged
	}
	return position{
		group: group,
		at:    int64(binary.BigEndian.Uint64(rest)), seq: int64(binary.BigEndian.Uint64(rest[8:])),
	}, nil
}

// record is the stored value of a message, besides its position.
type record struct {
	receives int   // recorded deliveries
	sent     int64 // Unix milliseconds
	body     []byte
}

func (r record) encode() []byte {
	b := make([]byte, 0, len(r.body)+12)
	b = binary.AppendUvarint(b, uint64(r.receives))
	b = binary.AppendVarint(b, r.sent)
	return append(b, r.body...)
}

// parseRecord decodes a record. Its body is a copy.
func parseRecord(b []byte) (r record, err error) {
	receives, n := binary.Uvarint(b)
	if n <= 0 {
		return r, errDamaged
	}
	sent, k := binary.Varint(b[n:])
	if k <= 0 {
		return r, errDamaged
	}
	return record{receives: int(receives), sent: sent, body: bytes.Clone(b[n+k:])}, nil
}

// number returns the number of a new message, within a commit. No other message
// has ever had it.
func (s *Queues) number(b *store.Batch) (int64, error) {
	if s.seq == s.reserved {
		if err := b.Set([]byte{store.NumberSpace}, strconv.AppendInt(nil, s.reserved+numbers, 10)); err != nil {
			return 0, err
		}
		s.reserved += numbers
	}
	s.seq++
	return s.seq - 1, nil
}

// count adds to the number of messages of the queue, within a commit.
func (l *lane) count(b *store.Batch, by int) error {
	if by == 0 {
		return nil
	}
	total := l.total.Add(int64(by))
	return b.Set(store.AppendPart([]byte{store.CountSpace}, l.name), strconv.AppendInt(nil, total, 10))
}

// load finds the groups of each queue, with two reads for each group, and the
// delayed messages.
func (s *Queues) load(ctx context.Context) error {
	return s.db.View(ctx, func(r *store.Reader) (err error) {
		if s.seq, err = readInt(r, []byte{store.NumberSpace}); err != nil {
			return err
		}
		s.seq = max(s.seq, 1)
		s.first, s.reserved = s.seq, s.seq
		for _, l := range s.lanes {
			total, err := readInt(r, store.AppendPart([]byte{store.CountSpace}, l.name))
			if err != nil {
				return err
			}
			l.total.Store(total)
			positions, err := openPositions(r, l, s.now())
			if err != nil {
				return err
			}
			l.add(positions...)
		}
		return nil
	})
}

// openPositions returns the position of the first message of each group, and of the
// messages that become visible after now.
func openPositions(r *store.Reader, l *lane, now int64) (positions []position, err error) {
	lower, end := l.prefix, store.After(l.prefix)
	for {
		var found bool
		err := r.Scan(lower, end, false, func(key, _ []byte) (more bool, err error) {
			p, err := parsePosition(key[len(l.prefix):])
			if err != nil {
				return false, err
			}
			found = true
			positions = append(positions, p)
			lower = store.After(l.groupPrefix(p.group))
			return false, nil
		})
		if err != nil || !found {
			return positions, err
		}
		first := positions[len(positions)-1]
		from := position{group: first.group, at: now + 1}
		if first.at > now {
			from.at, from.seq = first.at, first.seq+1
		}
		err = r.Scan(from.key(l.prefix), lower, false, func(key, _ []byte) (more bool, err error) {
			p, err := parsePosition(key[len(l.prefix):])
			positions = append(positions, p)
			return true, err
		})
		if err != nil {
			return positions, err
		}
	}
}

func readInt(r *store.Reader, key []byte) (int64, error) {
	value, found, err := r.Get(key)
	if err != nil || !found {
		return 0, err
	}
	return strconv.ParseInt(value, 10, 64)
}
