package sqlqueue

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"millrace/shared/queue"
)

// batch is a receive under way.
type batch struct {
	lane    *lane
	out     []queue.Delivery
	seqs    []int64 // of out
	again   bool    // some are delivered again, which goes on disk
	missing bool    // some bodies are on disk alone
}

// add notes a message as delivered, under the lane's lock.
func (b *batch) add(m *message) {
	var buf [128]byte
	receipt, from, to := appendReceipt(buf[:0], b.lane.name, m.seq, m.receives)
	text := string(receipt)
	b.out = append(b.out, queue.Delivery{
		ID:       text[from:to],
		Receipt:  text,
		Body:     m.body[:len(m.body):len(m.body)],
		Group:    m.group,
		Receives: int(m.receives),
		Sent:     time.UnixMilli(m.sent).UTC(),
	})
	b.seqs = append(b.seqs, m.seq)
	b.again = b.again || m.receives > 1
	b.missing = b.missing || m.body == nil
}

// deliver finishes a receive: it writes down deliveries after the first and
// reads bodies that are not in memory. If it fails the messages are ready again.
func (s *Queues) deliver(ctx context.Context, b *batch, err error) ([]queue.Delivery, error) {
	if err != nil || len(b.out) == 0 {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx) // what is taken is handed out
	if b.again {
		var changes []change
		for i, d := range b.out {
			if d.Receives > 1 {
				changes = append(changes, change{kind: received, seq: b.seqs[i], receives: int64(d.Receives)})
			}
		}
		err = s.commit(ctx, changes...)
	}
	if err == nil && b.missing {
		err = s.db.Read(ctx, func(conn *sqlite.Conn) error { return s.loadBodies(conn, b) })
	}
	if err != nil {
		b.lane.undo(b.out)
		return nil, fmt.Errorf("sqlqueue: receive from %s: %w", b.lane.name, err)
	}
	return b.out, nil
}

// loadBodies reads the bodies that are missing. A message without one was
// deleted meanwhile, by the receipt of an earlier delivery: it is left out.
func (s *Queues) loadBodies(conn *sqlite.Conn, b *batch) error {
	loaded := b.out[:0:len(b.out)]
	for i, d := range b.out {
		if d.Body == nil {
			// Looked for first where it leaves from when it is folded.
			body := s.unfolded.body(b.seqs[i])
			if body == nil {
				var err error
				if body, err = readBody(conn, b.seqs[i]); err != nil {
					return err
				}
			}
			if body == nil {
				continue
			}
			d.Body = body
		}
		loaded = append(loaded, d)
	}
	b.out = loaded
	return nil
}
