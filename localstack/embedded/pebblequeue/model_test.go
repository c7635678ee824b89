package pebblequeue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/localstack/embedded/store"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
)

const modelVisibility = 30 * time.Second

// modelMessage is the expected state of a message.
type modelMessage struct {
	group    string
	until    time.Time // delayed or invisible until then
	held     bool      // delivered
	receives int
	receipt  string
	dead     bool
}

// model compares the queues with a plain list of messages, on a manual clock.
type model struct {
	db   *store.DB
	qs   *Queues
	now  time.Time
	msgs map[string]*modelMessage // by body
	sent int
}

func (m *model) open(t require.TestingT) {
	qs, err := New(context.Background(), m.db, clock.Func(func() time.Time { return m.now }),
		[]queue.Definition{{Name: "q", Visibility: modelVisibility}})
	require.NoError(t, err)
	m.qs = qs
}

// settle applies the effects of the passed time.
func (m *model) settle() {
	for _, msg := range m.msgs {
		if msg.until.After(m.now) {
			continue
		}
		if msg.held && msg.receives >= queue.MaxReceives && !msg.dead {
			msg.dead, msg.receives = true, 0
		}
		msg.held, msg.until = false, time.Time{}
	}
}

func (m *model) ready(dead bool) (groups map[string]int, n int) {
	groups = make(map[string]int)
	for _, msg := range m.msgs {
		if msg.until.IsZero() && msg.dead == dead {
			groups[msg.group]++
			n++
		}
	}
	return groups, n
}

func (m *model) send(t *rapid.T) {
	msgs := make([]queue.Message, rapid.IntRange(1, 12).Draw(t, "n"))
	for i := range msgs {
		m.sent++
		body := fmt.Sprintf("%06d", m.sent)
		msgs[i] = queue.Message{
			Body:  []byte(body),
			Group: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "group"),
			Delay: rapid.SampledFrom([]time.Duration{0, 0, 5 * time.Second}).Draw(t, "delay"),
		}
		kept := &modelMessage{group: msgs[i].Group}
		if msgs[i].Delay > 0 {
			kept.until = m.now.Add(msgs[i].Delay)
		}
		m.msgs[body] = kept
	}
	require.NoError(t, m.qs.Send(context.Background(), "q", msgs...))
}

func (m *model) receive(t *rapid.T) {
	name, dead := "q", rapid.IntRange(0, 4).Draw(t, "dead") == 0
	if dead {
		name = queue.Dead("q")
	}
	limit := rapid.IntRange(1, 10).Draw(t, "max")
	groups, n := m.ready(dead)
	ds, err := m.qs.Receive(context.Background(), name, limit, 0)
	require.NoError(t, err)
	require.Len(t, ds, min(limit, n), "all that is ready, up to the limit")
	shares := make(map[string]int)
	for _, d := range ds {
		msg := m.msgs[string(d.Body)]
		require.NotNil(t, msg, "%s is not kept", d.Body)
		require.True(t, msg.until.IsZero() && msg.dead == dead, "%s is not ready", d.Body)
		msg.held, msg.until, msg.receipt = true, m.now.Add(modelVisibility), d.Receipt
		msg.receives++
		require.Equal(t, msg.receives, d.Receives)
		require.Equal(t, msg.group, d.Group)
		shares[d.Group]++
	}
	for group := range groups {
		for other, share := range shares {
			if shares[group] < groups[group] {
				require.LessOrEqual(t, share, shares[group]+1, "group %q had more turns than %q", other, group)
			}
		}
	}
}

// held draws a held delivery.
func (m *model) held(t *rapid.T) (body, name string) {
	var bodies []string
	for i := range m.sent {
		body := fmt.Sprintf("%06d", i+1)
		if msg := m.msgs[body]; msg != nil && msg.held {
			bodies = append(bodies, body)
		}
	}
	if len(bodies) == 0 {
		t.Skip("nothing is held")
	}
	body = rapid.SampledFrom(bodies).Draw(t, "held")
	if m.msgs[body].dead {
		return body, queue.Dead("q")
	}
	return body, "q"
}

func (m *model) delete(t *rapid.T) {
	body, name := m.held(t)
	require.NoError(t, m.qs.Delete(context.Background(), name, m.msgs[body].receipt))
	delete(m.msgs, body)
}

func (m *model) extend(t *rapid.T) {
	body, name := m.held(t)
	d := rapid.SampledFrom([]time.Duration{0, 0, 10 * time.Second, 45 * time.Second}).Draw(t, "d")
	require.NoError(t, m.qs.Extend(context.Background(), name, d, m.msgs[body].receipt))
	m.msgs[body].until = m.now.Add(d)
}

func (m *model) advance(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
}

// restart reopens the queues: messages in flight are ready again, and a message
// with at most one delivery counts one.
func (m *model) restart(t *rapid.T) {
	for _, msg := range m.msgs {
		if msg.receives >= queue.MaxReceives && !msg.dead {
			t.Skip("it goes to the dead-letter queue when its turn comes: see TestPoisonMessageIsMoved")
		}
	}
	require.NoError(t, m.qs.Close())
	for _, msg := range m.msgs {
		if msg.held || msg.until.IsZero() {
			msg.receives = max(msg.receives, 1)
			msg.until = m.now
			msg.held = true
		}
	}
	m.open(t)
}

func (m *model) check(t *rapid.T) {
	m.settle()
	for _, dead := range []bool{false, true} {
		var want queue.Stats
		_, want.Visible = m.ready(dead)
		for _, msg := range m.msgs {
			switch {
			case msg.dead != dead || msg.until.IsZero():
			case msg.held:
				want.InFlight++
			default:
				want.Delayed++
			}
		}
		name := "q"
		if dead {
			name = queue.Dead("q")
		}
		got, err := m.qs.Stats(context.Background(), name)
		require.NoError(t, err)
		got.Oldest = 0
		require.Equal(t, want, got, name)
		ready, err := m.qs.Depth(context.Background(), name)
		require.NoError(t, err)
		require.Equal(t, want.Visible, ready, name)
	}
}

func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		db, err := store.OpenMemory()
		require.NoError(t, err)
		defer func() { require.NoError(t, db.Close()) }()
		m := &model{db: db, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), msgs: make(map[string]*modelMessage)}
		m.open(t)
		defer func() { require.NoError(t, m.qs.Close()) }()
		t.Repeat(map[string]func(*rapid.T){
			"send": m.send, "receive": m.receive, "receive more": m.receive, "delete": m.delete,
			"extend": m.extend, "advance": m.advance, "restart": m.restart, "": m.check,
		})
	})
}
