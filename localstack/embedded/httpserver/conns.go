package httpserver

import (
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
	table *table
	addr  netip.Addr
	place int // in table.all, -1 once removed

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
	all    []*conn
	count  map[netip.Addr]int
	closed bool
	told   time.Time // when it was last logged that connections were closed
	cut    int       // connections closed since
}

func newTable(limit int, t times, log *slog.Logger) *table {
	return &table{limit: max(limit, 2), times: t, log: log, count: map[netip.Addr]int{}}
}

// add counts a new connection. One that has to go for it is closed; nil is
// returned if that is the new one.
func (t *table) add(nc net.Conn) *conn {
	now := time.Now()
	c := &conn{Conn: nc, table: t, addr: address(nc.RemoteAddr()), phase: awaited, since: now}
	t.mu.Lock()
	defer t.mu.Unlock()
	if full := len(t.all) >= t.limit; full || t.tooMany(c.addr) {
		victim := t.victim(c.addr, now, !full)
		t.tell(now, c.addr)
		switch {
		case victim != nil:
			t.drop(victim)
			_ = victim.Conn.Close() // the client may be gone
		case full:
			return nil
		}
	}
	if t.closed {
		return nil
	}
	c.place = len(t.all)
	t.all = append(t.all, c)
	t.count[c.addr]++
	return c
}

// tooMany reports whether an address has more than its share while others have
// connections, too.
func (t *table) tooMany(a netip.Addr) bool {
	n := t.count[a]
	return !a.IsLoopback() && n >= t.limit/2 && len(t.all) > n
}

// victim picks the connection that gives way to one of an address; nil: none
// does. own asks for one of that address.
func (t *table) victim(of netip.Addr, now time.Time, own bool) *conn {
	var best *conn
	var rank, most int
	var since time.Time
	for _, c := range t.all {
		if own && c.addr != of {
			continue
		}
		r, from := t.rank(c, now)
		n := t.count[c.addr]
		switch {
		case r == atWork:
			continue
		case best == nil, r < rank, r == rank && n > most, r == rank && n == most && from.Before(since):
			best, rank, most, since = c, r, n, from
		}
	}
	if best != nil || own {
		return best
	}
	for _, c := range t.all { // all at work
		if n := t.count[c.addr]; n > 2*(t.count[of]+1) && (best == nil || n > most || n == most && c.since.After(since)) {
			best, most, since = c, n, c.since
		}
	}
	return best
}

// atWork is the rank of connections that give way to nobody of their kind.
const atWork = 4

// rank is the place of a connection in the order of who goes first, and since
// when it has had it.
func (t *table) rank(c *conn, now time.Time) (int, time.Time) {
	switch {
	case c.phase == awaited && now.Sub(c.since) >= t.times.quiet:
		return 0, c.since
	case c.phase == kept:
		return 1, c.since
	case c.phase == awaited:
		return 2, c.since
	}
	if held := c.held.Load(); held != 0 && now.UnixNano()-held >= int64(t.times.stalled) {
		return 3, time.Unix(0, held)
	}
	return atWork, c.since
}

// tell logs, at most once in ten seconds, that connections had to be closed.
func (t *table) tell(now time.Time, of netip.Addr) {
	t.cut++
	if now.Sub(t.told) < 10*time.Second {
		return
	}
	t.log.Warn("connections are closed to make room for others", "limit", t.limit, "closed", t.cut,
		"newest_from", of.String(), "addresses", len(t.count))
	t.told, t.cut = now, 0
}

// drop takes a connection out of the table, which is locked.
func (t *table) drop(c *conn) {
	if c.place < 0 {
		return
	}
	last := t.all[len(t.all)-1]
	t.all[c.place], last.place = last, c.place
	t.all[len(t.all)-1] = nil
	t.all = t.all[:len(t.all)-1]
	c.place = -1
	if t.count[c.addr]--; t.count[c.addr] == 0 {
		delete(t.count, c.addr)
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
	c.phase, c.since = busy, time.Now()
	if state == http.StateIdle {
		c.phase = kept
	}
	c.held.Store(0)
}

// shut closes the connections that have no request, for good.
func (t *table) shut() {
	t.mu.Lock()
	t.closed = true
	var idle []*conn
	for _, c := range t.all {
		if c.phase != busy {
			idle = append(idle, c)
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
