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
	quietTime   = time.Second     // a header takes a round trip or two
	stalledTime = 2 * time.Second // a lost packet is retransmitted earlier
)

// phase is the state of a connection. Lower phases are closed first.
type phase int

const (
	awaited phase = iota // its first request has not arrived
	kept                 // idle between two requests
	busy                 // handling a request
)

// conn is a counted connection.
type conn struct {
	net.Conn
	table   *table // its lock guards the fields up to since
	peer    *peer
	element *list.Element // element of peer.in[phase]; nil once removed

	phase phase
	since time.Time // start of the phase

	// held is the time since when the client has delayed a body or a response, in
	// Unix nanoseconds; 0 if it does not.
	held atomic.Int64
	slow atomic.Bool // a body arrived too slowly
}

// Close closes the connection and stops counting it.
func (c *conn) Close() error {
	c.table.remove(c)
	return c.Conn.Close()
}

// CloseWrite closes the sending side. net/http calls it before it closes a
// connection on which more of a body arrives, so that the client can read the
// response.
func (c *conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// table holds the connections of a server.
type table struct {
	limit int
	times times
	log   *slog.Logger

	mu     sync.Mutex
	count  int
	peers  map[netip.Addr]*peer // with at least one connection
	closed bool
	logged time.Time // when closed connections were last logged
	cut    int       // connections closed since logged
}

func newTable(limit int, t times, log *slog.Logger) *table {
	return &table{limit: max(limit, 2), times: t, log: log, peers: map[netip.Addr]*peer{}}
}

// add counts a new connection and closes another one if there are too many. It
// returns nil if the new one must be rejected.
func (t *table) add(nc net.Conn) *conn {
	c, victim := t.admit(nc)
	if victim != nil {
		_ = victim.Conn.Close() // the client may have disconnected
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
		t.logClosed(now, addr)
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
	c.element = p.in[awaited].PushBack(c)
	t.peers[addr] = p
	t.count++
	return c, victim
}

// tooMany reports whether an address has more than its share while other
// addresses have connections.
func (t *table) tooMany(p *peer) bool {
	n := p.count()
	return !p.addr.IsLoopback() && n >= t.limit/2 && t.count > n
}

// logClosed logs, at most once in ten seconds, that connections were closed.
func (t *table) logClosed(now time.Time, of netip.Addr) {
	t.cut++
	if now.Sub(t.logged) < 10*time.Second {
		return
	}
	t.log.Warn("connections are closed to make room for others", "limit", t.limit, "closed", t.cut,
		"newest_from", of.String(), "addresses", len(t.peers))
	t.logged, t.cut = now, 0
}

// drop removes a connection from the table, which must be locked.
func (t *table) drop(c *conn) {
	if c.element == nil {
		return
	}
	c.peer.in[c.phase].Remove(c.element)
	c.element = nil
	if t.count--; c.peer.count() == 0 {
		delete(t.peers, c.peer.addr)
	}
}

func (t *table) remove(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(c)
}

// changed implements http.Server.ConnState.
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

// enter begins a phase of a connection, whose table must be locked.
func (c *conn) enter(next phase, now time.Time) {
	if c.element != nil {
		c.peer.in[c.phase].Remove(c.element)
		c.element = c.peer.in[next].PushBack(c)
	}
	c.phase, c.since = next, now
}

// shut closes all connections without a request and rejects new ones.
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
		_ = c.Close() // the client may have disconnected
	}
}

// address returns the address by which connections are counted: for IPv6 the
// /64 network that belongs to one client.
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

// withConn implements http.Server.ConnContext.
func withConn(ctx context.Context, nc net.Conn) context.Context {
	if c, ok := nc.(*conn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}
