package pebblequeue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/localstack/embedded/store"
)

// Kept is a stored message.
type Kept struct {
	Queue, Group string
	Visible      time.Time // not delivered before this time
	Sent         time.Time
	Receives     int // recorded deliveries
	Body         []byte
}

// Dump calls each with every message of a store, and damaged for entries that
// cannot be read.
func Dump(ctx context.Context, db *store.DB, each func(Kept) error, damaged func(error)) error {
	return db.Scan(ctx, []byte{store.MessageSpace}, []byte{store.MessageSpace + 1}, false, func(key, value []byte) (bool, error) {
		name, rest, _ := store.CutPart(key[1:])
		p, bad := parsePosition(rest)
		r, unread := parseRecord(value)
		if bad := errors.Join(bad, unread); bad != nil {
			damaged(fmt.Errorf("message at key %q: %w", key, bad))
			return true, nil
		}
		return true, each(Kept{
			Queue: name, Group: p.group, Visible: time.UnixMicro(p.at), Sent: time.UnixMilli(r.sent), Receives: r.receives, Body: r.body,
		})
	})
}
