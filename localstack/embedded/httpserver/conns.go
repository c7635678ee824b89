package httpserver

import (
	"container/list"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	quietTime   = time.Second     // a header takes as long as a round trip or two
	stalledTime = 2 * time.Second // a lost packet is sent again before
)

// phase is what a connection does, the one that is missed least first.
type phase int

const (
	awaited phase = iota // its first request has not come yet
	kept                 // between two requests
	busy                 // a request is being answered
)

// conn is a connection that is counted.
type conn struct {
	net.Conn
	table *table // locks the fields up to since
	peer  *peer
	place *list.Element // in peer.in[phase], nil once removed

	phase phase
	since time.Time // of the phase

	// held is since when the client holds up a body or an answer, Unix
	// nanoseconds; 0: it does not.
	held atomic.Int64
	slow atomic.Bool // a body came too slowly
}

// Close closes the connection and counts it no more.
func (c *conn) Close() error {
	c.table.remove(c)
	return c.Conn.Close()
}

// CloseWrite ends what is sent. net/http does so before it closes a connection on
// which more of a body comes, so that the client can read the answer.
func (c *conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// table is the connections of a server.
type table struct {
	limit int
	times times
	log   *slog.Logger

	mu     sync.Mutex
	count  int
	peers  map[netip.Addr]*peer // that have connections
	closed bool
	told   time.Time // when it was last logged that connections were closed
	cut    int       // connections closed since
}

func newTable(limit int, t times, log *slog.Logger) *table {
	return &table{limit: max(limit, 2), times: t, log: log, peers: map[netip.Addr]*peer{}}
}

// add counts a new connection. One that has to go for it is closed; nil is
// returned if that is the new one.
func (t *table) add(nc net.Conn) *conn {
	c, victim := t.admit(nc)
	if victim != nil {
		_ = victim.Conn.Close() // the client may be gone
	}
	return c
}

func (t *table) admit(nc net.Conn) (c, victim *conn) {
	addr := address(nc.RemoteAddr())
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	p := t.peers[addr]
	if p == nil {
		p = &peer{addr: addr}
	}
	if full := t.count >= t.limit; full || t.tooMany(p) {
		victim = t.victim(p, now, !full)
		t.tell(now, addr)
		switch {
		case victim != nil:
			t.drop(victim)
		case full:
			return nil, nil
		}
	}
	if t.closed {
		return nil, victim
	}
	c = &conn{Conn: nc, table: t, peer: p, phase: awaited, since: now}
	c.place = p.in[awaited].PushBack(c)
	t.peers[addr] = p
	t.count++
	return c, victim
}

// tooMany reports whether an address has more than its share while others have
// connections, too.
func (t *table) tooMany(p *peer) bool {
	n := p.count()
	return !p.addr.IsLoopback() && n >= t.limit/2 && t.count > n
}

// tell logs, at most once in ten seconds, that connections had to be closed.
func (t *table) tell(now time.Time, of netip.Addr) {
	t.cut++
	if now.Sub(t.told) < 10*time.Second {
		return
	}
	t.log.Warn("connections are closed to make room for others", "limit", t.limit, "closed", t.cut,
		"newest_from", of.String(), "addresses", len(t.peers))
	t.told, t.cut = now, 0
}

// drop takes a connection out of the table, which is locked.
func (t *table) drop(c *conn) {
	if c.place == nil {
		return
	}
	c.peer.in[c.phase].Remove(c.place)
	c.place = nil
	if t.count--; c.peer.count() == 0 {
		delete(t.peers, c.peer.addr)
	}
}

func (t *table) remove(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(c)
}

// changed is http.Server.ConnState.
func (t *table) changed(nc net.Conn, state http.ConnState) {
	c, ok := nc.(*conn)
	if !ok || state != http.StateActive && state != http.StateIdle {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	next := busy
	if state == http.StateIdle {
		next = kept
	}
	c.enter(next, time.Now())
	c.held.Store(0)
}

// enter begins a phase of a connection, whose table is locked.
func (c *conn) enter(next phase, now time.Time) {
	if c.place != nil {
		c.peer.in[c.phase].Remove(c.place)
		c.place = c.peer.in[next].PushBack(c)
	}
	c.phase, c.since = next, now
}

// shut closes the connections that have no request, for good.
func (t *table) shut() {
	t.mu.Lock()
	t.closed = true
	var idle []*conn
	for _, p := range t.peers {
		for _, ph := range []phase{awaited, kept} {
			for e := p.in[ph].Front(); e != nil; e = e.Next() {
				idle = append(idle, e.Value.(*conn))
			}
		}
	}
	t.mu.Unlock()
	for _, c := range idle {
		_ = c.Close() // the client may be gone
	}
}

// address is the one by which connections are counted: of IPv6 the network of
// 64 bits that one client has.
func address(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	ip := tcp.AddrPort().Addr().Unmap()
	if ip.Is6() && !ip.IsLoopback() {
		if network, err := ip.WithZone("").Prefix(64); err == nil {
			return network.Addr()
		}
	}
	return ip
}

type connKey struct{}

// withConn is http.Server.ConnContext.
func withConn(ctx context.Context, nc net.Conn) context.Context {
	if c, ok := nc.(*conn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}
