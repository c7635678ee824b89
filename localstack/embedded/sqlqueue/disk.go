package sqlqueue

import (
	"context"
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

func insert(conn *sqlite.Conn, queue string, m *message, body []byte, due time.Time) error {
	stmt, err := conn.Prepare("INSERT INTO queue_messages (seq, queue, grp, sent, due, body) VALUES (?, ?, ?, ?, ?, ?)")
	if err != nil {
		return err
	}
	stmt.BindInt64(1, m.seq)
	stmt.BindText(2, queue)
	stmt.BindText(3, m.group)
	stmt.BindInt64(4, m.sent)
	stmt.BindInt64(5, due.UnixMilli())
	stmt.BindBytes(6, body)
	return finish(stmt)
}

func setReceives(conn *sqlite.Conn, seq int64, receives int) error {
	stmt, err := conn.Prepare("UPDATE queue_messages SET receives = ? WHERE seq = ?")
	if err != nil {
		return err
	}
	stmt.BindInt64(1, int64(receives))
	stmt.BindInt64(2, seq)
	return finish(stmt)
}

// readBody returns a message's body, nil if the message is gone.
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

// finish runs a statement that returns no rows.
func finish(stmt *sqlite.Stmt) error {
	_, err := stmt.Step()
	return err
}

// changes are writes that nobody waits for.
type changes struct {
	deleted []int64
	moved   []move
}

type move struct {
	seq int64
	to  string // queue
}

// change adds to the changes that wait for the writer.
func (s *Queues) change(add func(*changes)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.later == nil {
		c := new(changes)
		err := s.db.WriteAsync(func(conn *sqlite.Conn) error {
			s.detach(c)
			return c.write(conn)
		})
		if err != nil {
			return err
		}
		s.later = c
	}
	add(s.later)
	return nil
}

// detach ends adding to c, which is about to be written.
func (s *Queues) detach(c *changes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.later == c {
		s.later = nil
	}
}

// moved notes that a message went to a dead-letter queue. Should that be lost
// the message has its count still, and moves again at the next start.
func (s *Queues) moved(seq int64, to string) {
	_ = s.change(func(c *changes) { c.moved = append(c.moved, move{seq, to}) })
}

// flush waits until all changes so far are written.
func (s *Queues) flush() error {
	return s.db.Write(context.Background(), func(*sqlite.Conn) error { return nil })
}

// write does the changes; more than once does no harm. Moves come first, as a
// message is moved before it is deleted from where it went.
func (c *changes) write(conn *sqlite.Conn) error {
	for _, m := range c.moved {
		stmt, err := conn.Prepare("UPDATE queue_messages SET queue = ?, receives = 0 WHERE seq = ?")
		if err != nil {
			return err
		}
		stmt.BindText(1, m.to)
		stmt.BindInt64(2, m.seq)
		if err := finish(stmt); err != nil {
			return err
		}
	}
	for _, seq := range c.deleted {
		stmt, err := conn.Prepare("DELETE FROM queue_messages WHERE seq = ?")
		if err != nil {
			return err
		}
		stmt.BindInt64(1, seq)
		if err := finish(stmt); err != nil {
			return err
		}
	}
	return nil
}
