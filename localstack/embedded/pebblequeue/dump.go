package pebblequeue

import (
	"context"
	"fmt"
	"time"

	"millrace/localstack/embedded/store"
)

// Kept is a message as it is stored.
type Kept struct {
	Queue, Group string
	Visible      time.Time // not delivered before
	Sent         time.Time
	Receives     int // deliveries that were written down
	Body         []byte
}

// Dump calls each with every message of a store. What cannot be read is told to
// damaged.
func Dump(ctx context.Context, db *store.DB, each func(Kept) error, damaged func(error)) error {
	return db.Scan(ctx, []byte{store.MessageSpace}, []byte{store.MessageSpace + 1}, false, func(key, value []byte) (bool, error) {
		name, rest, ok := store.CutPart(key[1:])
		p, err := parsePlace(rest)
		var r record
		if err == nil {
			r, err = parseRecord(value)
		}
		if !ok || err != nil {
			damaged(fmt.Errorf("pebblequeue: damaged message at key %q", key))
			return true, nil
		}
		return true, each(Kept{
			Queue: name, Group: p.group, Visible: time.UnixMicro(p.at), Sent: time.UnixMilli(r.sent), Receives: r.receives, Body: r.body,
		})
	})
}
