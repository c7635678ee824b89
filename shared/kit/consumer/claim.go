package consumer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"millrace/shared/platform/bus"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
)

// Delivery is an event being handled.
type Delivery struct {
	bus.Event

	cfg    *Config
	key    table.Key
	owner  string // of this delivery
	marked bool   // the handler marks the event as handled
}

// claim is the item of an event that was claimed or handled. A handled one has
// no lease.
type claim struct {
	table.Key
	Owner   string       `table:"owner"`
	Until   clock.Millis `table:"until_ms,omitempty"` // of the lease
	Expires int64        `table:"ttl"`                // Unix second
}

const (
	leaseAttribute = "until_ms"
	ownerAttribute = "owner"
)

// handled is returned by take for an event that was handled before.
const handled = time.Duration(-1)

func newDelivery(cfg *Config, event bus.Event) *Delivery {
	return &Delivery{Event: event, cfg: cfg, owner: ids.Token(12), key: table.Key{PK: partition(cfg.Name, &event), SK: "claim"}}
}

// partition returns the partition of one event. Each event has its own.
func partition(consumer string, event *bus.Event) string {
	sum := sha256.Sum256([]byte(event.DetailType + "\x00" + event.DedupeKey))
	return event.Workspace + "#consumed#" + consumer + "#" + hex.EncodeToString(sum[:]) //guard:tenant/consumed operand 1 "org"
}

// take claims the event. It returns 0 if it succeeded, handled if the event was
// handled before, otherwise how long another delivery holds it.
func (d *Delivery) take(ctx context.Context) (time.Duration, error) {
	now := d.cfg.Clock.Now()
	c := claim{Key: d.key, Owner: d.owner, Until: clock.ToMillis(now.Add(d.cfg.Lease)), Expires: now.Add(Retention).Unix()}
	//guard:consumer/lease-ends drop arg 2
	free := table.Or(table.IsNew(), table.Le(leaseAttribute, now.UnixMilli()), table.Le(table.TTLAttribute, now.Unix()))
	put := table.Put{Item: c, If: free} //guard:consumer/claim drop field If
	err := d.cfg.Table.Put(ctx, put)
	failed, ok := errors.AsType[*table.ConditionError](err)
	if !ok {
		return 0, err
	}
	var other claim
	if err := table.Unmarshal(failed.Old, &other); err != nil {
		return 0, err
	}
	switch {
	case other.Owner == d.owner: // the response to a first attempt was lost
		return 0, nil
	case other.Until == 0:
		return handled, nil
	}
	return max(other.Until.Time().Sub(now), time.Second), nil
}

// Handled returns the write that marks the event as handled. A handler that
// includes it in the transaction of its effect takes effect exactly once: the
// transaction fails if another delivery has taken over the event or has handled
// it.
func (d *Delivery) Handled() table.Update {
	d.marked = true
	return d.mark()
}

func (d *Delivery) mark() table.Update {
	return table.Update{
		Key: d.key, Do: []table.Action{table.Remove(leaseAttribute)}, If: d.mine(),
	}
}

// mine holds while this delivery has claimed the event and it is not handled.
func (d *Delivery) mine() table.Cond {
	return table.And(table.Eq(ownerAttribute, d.owner), table.Exists(leaseAttribute)) //guard:consumer/owner drop arg 1
}

// finish marks an event as handled. If that fails, a further delivery is
// handled again.
func (d *Delivery) finish(ctx context.Context, log *slog.Logger) {
	if d.marked {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	if _, err := d.cfg.Table.Update(ctx, d.mark()); err != nil {
		log.WarnContext(ctx, "handled event not marked", "error", err)
	}
}

// release releases the claim of an event that was not handled. If that fails,
// the lease must expire first.
func (d *Delivery) release(ctx context.Context, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	err := d.cfg.Table.Delete(ctx, table.Delete{Key: d.key, If: d.mine()})
	if err != nil && !errors.Is(err, table.ErrConditionFailed) {
		log.WarnContext(ctx, "claim of an event not released", "error", err)
	}
}
