package httpserver

import (
	"cmp"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// from is a connection of an address.
type from struct {
	net.Conn
	ip     string
	closed bool
}

func (f *from) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(f.ip), Port: 1} }
func (f *from) Close() error         { f.closed = true; return nil }

// kind is what a connection does in a test.
type kind struct {
	ip    string
	phase phase
	age   time.Duration // of the phase
	held  time.Duration // how long its client has held it up
}

// TestWhoGivesWay: of the connections of a full table, which is closed for a new
// one; -1: the new one.
func TestWhoGivesWay(t *testing.T) {
	t.Parallel()
	const local, near, far = "127.0.0.1", "192.0.2.1", "198.51.100.1"
	for name, tt := range map[string]struct {
		from  string
		conns []kind
		want  int
	}{
		"a half-open one before one that is kept alive": {local, []kind{
			{local, kept, time.Minute, 0}, {local, awaited, 3 * time.Second, 0}, {local, busy, time.Hour, 0}}, 1},
		"the oldest half-open one": {local, []kind{
			{local, awaited, 3 * time.Second, 0}, {local, awaited, 5 * time.Second, 0}, {local, awaited, 4 * time.Second, 0}}, 1},
		"of the address that has most": {near, []kind{
			{near, awaited, 9 * time.Second, 0}, {far, awaited, 2 * time.Second, 0}, {far, busy, 0, 0}}, 1},
		"a half-open one whoever has most": {near, []kind{
			{near, kept, time.Minute, 0}, {near, kept, time.Minute, 0}, {far, awaited, 2 * time.Second, 0}}, 2},
		"one that is kept alive before one that is new": {local, []kind{
			{local, awaited, 100 * time.Millisecond, 0}, {local, kept, time.Millisecond, 0}}, 1},
		"one that is new before one at work": {local, []kind{
			{local, busy, time.Hour, 0}, {local, awaited, 100 * time.Millisecond, 0}}, 1},
		"one whose client sends or reads nothing": {local, []kind{
			{local, busy, time.Hour, 0}, {local, busy, time.Hour, 3 * time.Second}, {local, busy, time.Hour, 5 * time.Second}}, 2},
		"none that waits for a packet": {local, []kind{{local, busy, time.Hour, time.Second}, {local, busy, time.Hour, 0}}, -1},
		"none that works, of one's own address": {local, []kind{
			{local, busy, time.Hour, 0}, {local, busy, time.Second, 0}, {near, busy, time.Second, 0}}, -1},
		"the newest of who has many at work": {near, []kind{
			{far, busy, time.Hour, 0}, {far, busy, time.Minute, 0}, {far, busy, time.Second, 0}, {local, busy, time.Second, 0}}, 2},
		"none of who has hardly more": {near, []kind{
			{far, busy, time.Hour, 0}, {far, busy, time.Second, 0}, {near, busy, time.Second, 0}}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := newTable(1000, times{quiet: quietTime, stalled: stalledTime}, slog.New(slog.DiscardHandler))
			var all []*from
			var conns []*conn
			for _, k := range tt.conns {
				f := &from{ip: k.ip}
				all = append(all, f)
				c := table.add(f)
				require.NotNil(t, c)
				conns = append(conns, c)
			}
			byAge := make([]int, len(conns)) // connections enter phases in the order of time
			for i := range byAge {
				byAge[i] = i
			}
			slices.SortStableFunc(byAge, func(a, b int) int { return cmp.Compare(tt.conns[b].age, tt.conns[a].age) })
			now := time.Now()
			for _, i := range byAge {
				k := tt.conns[i]
				conns[i].enter(k.phase, now.Add(-k.age))
				if k.held > 0 {
					conns[i].held.Store(now.Add(-k.held).UnixNano())
				}
			}
			table.limit = len(all)
			added := table.add(&from{ip: tt.from})
			assert.Equal(t, tt.want < 0, added == nil)
			for i, f := range all {
				assert.Equal(t, i == tt.want, f.closed, "connection %d", i)
			}
		})
	}
}

// TestAnAddressHasHalf of the connections while others have some, other than
// loopback, which a proxy has them all from.
func TestAnAddressHasHalf(t *testing.T) {
	t.Parallel()
	for ip, want := range map[string]int{"192.0.2.1": 10, "127.0.0.1": 19, "::1": 19} {
		table := newTable(20, times{quiet: quietTime, stalled: stalledTime}, slog.New(slog.DiscardHandler))
		other := &from{ip: "198.51.100.1"}
		require.NotNil(t, table.add(other))
		for range 19 {
			require.NotNil(t, table.add(&from{ip: ip}))
		}
		assert.Equal(t, want, table.peers[address((&from{ip: ip}).RemoteAddr())].count(), ip)
		assert.False(t, other.closed)
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for ip, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "::1": "::1",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::", "2001:db8:1:2::9": "2001:db8:1:2::",
	} {
		assert.Equal(t, want, address(&net.TCPAddr{IP: net.ParseIP(ip)}).String())
	}
	assert.False(t, address(&net.UnixAddr{}).IsValid())
}

// TestClosedConnectionsAreNotCounted, whoever closes them and however often.
func TestClosedConnectionsAreNotCounted(t *testing.T) {
	t.Parallel()
	table := newTable(10, times{}, slog.New(slog.DiscardHandler))
	var all []*conn
	for range 5 {
		all = append(all, table.add(&from{ip: "192.0.2.1"}))
	}
	for _, c := range []*conn{all[1], all[4], all[1], all[0]} {
		require.NoError(t, c.Close())
	}
	assert.Equal(t, 2, table.count)
	assert.Len(t, table.peers, 1)
	table.changed(all[2], http.StateActive)
	table.shut()
	assert.Equal(t, 1, table.count)
	require.NoError(t, all[2].Close())
	assert.Zero(t, table.count)
	assert.Empty(t, table.peers)
	assert.Nil(t, table.add(&from{ip: "192.0.2.1"}), "it is shut")
}

func TestDefaultConnections(t *testing.T) {
	t.Parallel()
	one, half := DefaultConnections(1), DefaultConnections(2)
	assert.LessOrEqual(t, one, mostConnections)
	assert.GreaterOrEqual(t, half, 8)
	assert.LessOrEqual(t, half, one)
}

// BenchmarkAdd adds to a full table of half-open connections.
func BenchmarkAdd(b *testing.B) {
	table := newTable(2048, times{quiet: quietTime, stalled: stalledTime}, slog.New(slog.DiscardHandler))
	for range 2048 {
		table.add(&from{ip: "192.0.2.1"})
	}
	for b.Loop() {
		table.add(&from{ip: "192.0.2.1"})
	}
}
