package httpserver

import (
	"cmp"
	"container/list"
	"iter"
	"maps"
	"net/netip"
	"time"
)

// peer holds the connections of an address. Those of a phase are in the order
// in which they entered it, oldest first.
type peer struct {
	addr netip.Addr
	in   [busy + 1]list.List // of *conn
}

func (p *peer) count() int { return p.in[awaited].Len() + p.in[kept].Len() + p.in[busy].Len() }

// oldest returns the connection that has been in a phase for longest, or nil.
func (p *peer) oldest(ph phase) *conn {
	if e := p.in[ph].Front(); e != nil {
		return e.Value.(*conn)
	}
	return nil
}

// victim returns the connection to close for one of an address, or nil. If own
// is set, it must have that address itself.
func (t *table) victim(of *peer, now time.Time, own bool) *conn {
	from := maps.Values(t.peers)
	if own {
		from = func(yield func(*peer) bool) { yield(of) }
	}
	best := first(from, func(p *peer) candidate { return t.missed(p, now) })
	if best.conn == nil {
		best = first(from, func(p *peer) candidate { return t.stalled(p, now) })
	}
	if best.conn != nil || own {
		return best.conn
	}
	return first(from, func(p *peer) (c candidate) { // all are busy
		if p.count() > 2*(of.count()+1) {
			c.conn = p.in[busy].Back().Value.(*conn)
			c.age = c.conn.since.Sub(now) // the newest
		}
		return c
	}).conn
}

// candidate is the connection of an address that would be closed first.
type candidate struct {
	conn *conn // nil: none
	rank int   // the lowest is closed first
	age  time.Duration
}

// first returns the candidate that is closed first among several addresses: the
// one with the lowest rank, of the address with the most connections, and the
// oldest.
func first(from iter.Seq[*peer], choose func(*peer) candidate) (best candidate) {
	most := 0
	for p := range from {
		c := choose(p)
		if c.conn == nil {
			continue
		}
		n := p.count()
		order := cmp.Or(cmp.Compare(c.rank, best.rank), cmp.Compare(most, n), cmp.Compare(best.age, c.age))
		if best.conn == nil || order < 0 {
			best, most = c, n
		}
	}
	return best
}

// missed returns an address's first candidate without a request. Its rank is
// the position in the order of the package documentation.
func (t *table) missed(p *peer, now time.Time) candidate {
	next, idle := p.oldest(awaited), p.oldest(kept)
	switch {
	case next != nil && now.Sub(next.since) >= t.times.quiet:
		return candidate{next, 1, now.Sub(next.since)}
	case idle != nil:
		return candidate{idle, 2, now.Sub(idle.since)}
	case next != nil:
		return candidate{next, 3, now.Sub(next.since)}
	}
	return candidate{}
}

// stalled returns an address's connection whose client has delayed a request
// for longest. It scans all connections, which are all busy.
func (t *table) stalled(p *peer, now time.Time) (c candidate) {
	for e := p.in[busy].Front(); e != nil; e = e.Next() {
		of := e.Value.(*conn)
		held := of.held.Load()
		if age := time.Duration(now.UnixNano() - held); held != 0 && age >= t.times.stalled && age > c.age {
			c.conn, c.age = of, age
		}
	}
	return c
}
