package sqlqueue

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"zombiezen.com/go/sqlite"
)

// schema: seq is the order of sending; sent and due are Unix milliseconds.
const schema = `CREATE TABLE queue_messages (
	seq      INTEGER PRIMARY KEY,
	queue    TEXT    NOT NULL,
	grp      TEXT    NOT NULL,
	sent     INTEGER NOT NULL,
	due      INTEGER NOT NULL,
	receives INTEGER NOT NULL DEFAULT 0,
	body     BLOB    NOT NULL
) STRICT`

// load takes up the messages on disk, without their bodies. It also chooses
// numbers for new ones that no message, deleted or not, has had: they start at
// the microseconds of the clock, and nothing sends a million a second for long.
func (s *Queues) load(ctx context.Context) error {
	wall, now := s.clock.Now().UnixMilli(), s.now()
	last := s.clock.Now().UnixMicro()
	groups := make(map[string]string) // one copy of each name
	kept := make(map[*lane][]*message)
	err := s.db.Read(ctx, func(conn *sqlite.Conn) error {
		stmt, err := conn.Prepare("SELECT seq, queue, grp, sent, due, receives FROM queue_messages ORDER BY seq")
		if err != nil {
			return err
		}
		for {
			row, err := stmt.Step()
			if err != nil || !row {
				return err
			}
			seq := stmt.ColumnInt64(0)
			last = max(last, seq)
			l := s.lanes[stmt.ColumnText(1)]
			if l == nil {
				continue
			}
			name := stmt.ColumnText(2)
			if _, ok := groups[name]; !ok {
				groups[name] = name
			}
			m := &message{seq: seq, group: groups[name], sent: stmt.ColumnInt64(3), receives: int32(stmt.ColumnInt64(5))}
			if due := stmt.ColumnInt64(4); due > wall {
				m.due = now + time.Duration(due-wall)*time.Millisecond
			} else {
				m.receives = max(m.receives, 1) // the first delivery leaves no trace
			}
			kept[l] = append(kept[l], m)
		}
	})
	if err != nil {
		return err
	}
	s.seq.Store(last)
	for l, msgs := range kept {
		l.add(msgs...)
	}
	return nil
}

// kind is what a change does to a message; it is the first byte of its record.
type kind byte

const (
	sent     kind = 's' // the message, whole
	deleted  kind = 'd'
	received kind = 'r' // its receives
	moved    kind = 'm' // its queue; the receives begin anew
)

// change is one change of one message.
type change struct {
	kind     kind
	seq      int64
	queue    string
	group    string
	sent     int64
	due      int64
	receives int64
	body     []byte
}

var errRecord = errors.New("sqlqueue: the journal's record is damaged")

func (c *change) append(b []byte) []byte {
	b = append(b, byte(c.kind))
	for _, n := range []int64{c.seq, c.sent, c.due, c.receives} {
		b = binary.AppendVarint(b, n)
	}
	for _, s := range []string{c.queue, c.group} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return append(binary.AppendUvarint(b, uint64(len(c.body))), c.body...)
}

// parse reads a change and returns the rest.
func (c *change) parse(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return nil, errRecord
	}
	c.kind, b = kind(b[0]), b[1:]
	for _, n := range []*int64{&c.seq, &c.sent, &c.due, &c.receives} {
		v, used := binary.Varint(b)
		if used <= 0 {
			return nil, errRecord
		}
		*n, b = v, b[used:]
	}
	var texts [3][]byte
	for i := range texts {
		n, used := binary.Uvarint(b)
		if used <= 0 || n > uint64(len(b)-used) {
			return nil, errRecord
		}
		texts[i], b = b[used:used+int(n)], b[used+int(n):]
	}
	c.queue, c.group, c.body = string(texts[0]), string(texts[1]), texts[2]
	return b, nil
}

// replay makes a record's changes in the database.
func replay(conn *sqlite.Conn, record []byte) error {
	for len(record) > 0 {
		var c change
		var err error
		if record, err = c.parse(record); err != nil {
			return err
		}
		if err := c.write(conn); err != nil {
			return err
		}
	}
	return nil
}

// write makes a change in the database; of a message that is not there any more
// it changes nothing.
func (c *change) write(conn *sqlite.Conn) error {
	switch c.kind {
	case sent:
		return run(conn, "INSERT INTO queue_messages (seq, queue, grp, sent, due, receives, body) VALUES (?, ?, ?, ?, ?, ?, ?)", func(stmt *sqlite.Stmt) {
			stmt.BindInt64(1, c.seq)
			stmt.BindText(2, c.queue)
			stmt.BindText(3, c.group)
			stmt.BindInt64(4, c.sent)
			stmt.BindInt64(5, c.due)
			stmt.BindInt64(6, c.receives)
			stmt.BindBytes(7, c.body)
		})
	case deleted:
		return run(conn, "DELETE FROM queue_messages WHERE seq = ?", func(stmt *sqlite.Stmt) { stmt.BindInt64(1, c.seq) })
	case received:
		return run(conn, "UPDATE queue_messages SET receives = ? WHERE seq = ?", func(stmt *sqlite.Stmt) {
			stmt.BindInt64(1, c.receives)
			stmt.BindInt64(2, c.seq)
		})
	case moved:
		return run(conn, "UPDATE queue_messages SET queue = ?, receives = ? WHERE seq = ?", func(stmt *sqlite.Stmt) {
			stmt.BindText(1, c.queue)
			stmt.BindInt64(2, c.receives) // since the move, if they meet before a fold
			stmt.BindInt64(3, c.seq)
		})
	}
	return errRecord
}

// run runs a statement that returns no rows.
func run(conn *sqlite.Conn, sql string, bind func(*sqlite.Stmt)) error {
	stmt, err := conn.Prepare(sql)
	if err != nil {
		return err
	}
	bind(stmt)
	_, err = stmt.Step()
	return err
}

// readBody returns a message's body from the database, nil if it is not there.
func readBody(conn *sqlite.Conn, seq int64) ([]byte, error) {
	stmt, err := conn.Prepare("SELECT body FROM queue_messages WHERE seq = ?")
	if err != nil {
		return nil, err
	}
	stmt.BindInt64(1, seq)
	row, err := stmt.Step()
	if err != nil || !row {
		return nil, err
	}
	body := make([]byte, stmt.ColumnLen(0))
	stmt.ColumnBytes(0, body)
	return body, stmt.Reset()
}
