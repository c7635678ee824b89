package faults

import (
	"context"
	"errors"
	"time"

	"millrace/localstack/embedded/pebbletable"
	"millrace/localstack/proof/memory"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
)

// replica is a lagging copy of the indexes: it applies the store's writes in
// order, late.
type replica struct {
	table   *pebbletable.Table
	pending []change
}

// change is the result of a write: an item's index entries.
type change struct {
	key  table.Key
	item table.Item // nil: deleted
	at   time.Time
}

func newReplica(t memory.T, now clock.Clock) *replica { return &replica{table: memory.Table(t, now)} }

// noted records the state of written items. It reads them under the lock, so
// that the later of two concurrent writes is recorded last.
func (p *Plan) noted(keys ...table.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range keys {
		item, err := p.store.Get(context.Background(), key) // unmetered
		if err != nil && !errors.Is(err, table.ErrNotFound) {
			continue
		}
		p.replica.pending = append(p.replica.pending, change{key, places(item), p.clock.Now()})
	}
}

// places returns only an item's keys and those of the indexes.
func places(item table.Item) table.Item {
	if item == nil {
		return nil
	}
	out := table.Item{"pk": item["pk"], "sk": item["sk"]}
	for _, x := range table.Indexes {
		pk, sk := x.Attributes()
		for _, name := range []string{pk, sk} {
			if v, ok := item[name]; ok {
				out[name] = v
			}
		}
	}
	return out
}

// lag decides whether a query sees the replica, and updates that: with
// everything older than staleFor, and some of the rest.
func (p *Plan) lag() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	stale := p.chance("stale", p.rates.Stale)
	if !stale {
		return false
	}
	r, now := p.replica, p.clock.Now()
	n := 0
	for n < len(r.pending) && now.Sub(r.pending[n].at) >= staleFor {
		n++
	}
	n += p.rng.IntN(len(r.pending) - n + 1)
	for _, c := range r.pending[:n] {
		if c.item == nil {
			_ = r.table.Delete(context.Background(), table.Delete{Key: c.key})
		} else {
			_ = r.table.Put(context.Background(), table.Put{Item: c.item})
		}
	}
	r.pending = r.pending[n:]
	return true
}
