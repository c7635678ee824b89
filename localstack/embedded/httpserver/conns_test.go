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

// from is a connection with a given address.
type from struct {
	net.Conn
	ip     string
	closed bool
}

func (f *from) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(f.ip), Port: 1} }
func (f *from) Close() error         { f.closed = true; return nil }

// kind is the state of a connection in a test.
type kind struct {
	ip    string
	phase phase
	age   time.Duration // of the phase
	held  time.Duration // how long its client has delayed it
}

// TestVictim checks which connection of a full table is closed for a new one;
// -1 means that the new one is refused.
func TestVictim(t *testing.T) {
	t.Parallel()
	const local, near, far = "127.0.0.1", "192.0.2.1", "198.51.100.1"
	for name, tt := range map[string]struct {
		from  string
		conns []kind
		want  int
	}{
		"half-open before kept alive": {local, []kind{
			{local, kept, time.Minute, 0}, {local, awaited, 3 * time.Second, 0}, {local, busy, time.Hour, 0}}, 1},
		"oldest half-open": {local, []kind{
			{local, awaited, 3 * time.Second, 0}, {local, awaited, 5 * time.Second, 0}, {local, awaited, 4 * time.Second, 0}}, 1},
		"of the address with the most": {near, []kind{
			{near, awaited, 9 * time.Second, 0}, {far, awaited, 2 * time.Second, 0}, {far, busy, 0, 0}}, 1},
		"half-open before any other of the largest address": {near, []kind{
			{near, kept, time.Minute, 0}, {near, kept, time.Minute, 0}, {far, awaited, 2 * time.Second, 0}}, 2},
		"kept alive before new": {local, []kind{
			{local, awaited, 100 * time.Millisecond, 0}, {local, kept, time.Millisecond, 0}}, 1},
		"new before busy": {local, []kind{
			{local, busy, time.Hour, 0}, {local, awaited, 100 * time.Millisecond, 0}}, 1},
		"stalled client": {local, []kind{
			{local, busy, time.Hour, 0}, {local, busy, time.Hour, 3 * time.Second}, {local, busy, time.Hour, 5 * time.Second}}, 2},
		"not while a packet may be lost": {local, []kind{{local, busy, time.Hour, time.Second}, {local, busy, time.Hour, 0}}, -1},
		"no busy one of the same address": {local, []kind{
			{local, busy, time.Hour, 0}, {local, busy, time.Second, 0}, {near, busy, time.Second, 0}}, -1},
		"newest busy one of a large address": {near, []kind{
			{far, busy, time.Hour, 0}, {far, busy, time.Minute, 0}, {far, busy, time.Second, 0}, {local, busy, time.Second, 0}}, 2},
		"no busy one of an address with few more": {near, []kind{
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

// TestAddressGetsAtMostHalf of the connections while others have some. Loopback
// is exempt, because a proxy uses it for all clients.
func TestAddressGetsAtMostHalf(t *testing.T) {
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

// BenchmarkAdd adds connections to a full table of half-open ones.
func BenchmarkAdd(b *testing.B) {
	table := newTable(2048, times{quiet: quietTime, stalled: stalledTime}, slog.New(slog.DiscardHandler))
	for range 2048 {
		table.add(&from{ip: "192.0.2.1"})
	}
	for b.Loop() {
		table.add(&from{ip: "192.0.2.1"})
	}
}
