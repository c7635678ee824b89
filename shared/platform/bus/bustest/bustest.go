// Package bustest is the conformance suite of package bus. Every driver passes
// it unchanged, with its own factory. It expects delivery at least once, in no
// particular order.
package bustest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/bus"
)

// Receive returns n envelopes delivered to a rule's target, or fewer if ctx
// ends. It returns each delivery once.
type Receive func(ctx context.Context, n int) []bus.Envelope

// NewBus creates a bus with one rule that selects the given detail types.
// Nothing else uses the bus until the end of the test.
type NewBus func(t *testing.T, detailTypes []string) (bus.Bus, Receive)

const (
	// patience is how long a case waits for an expected event.
	patience = 2 * time.Minute
	// settle is how long a case watches for unexpected events.
	settle = 200 * time.Millisecond
)

var cases = []struct {
	name string
	run  func(t *testing.T, newBus NewBus)
}{
	{"Envelope", envelope},
	{"TimeOfPublishing", timeOfPublishing},
	{"PublishedAgain", publishedAgain},
	{"RulePicks", rulePicks},
	{"ManyBatches", manyBatches},
	{"LargeEvents", largeEvents},
	{"Nothing", nothing},
	{"Limits", limits},
	{"EndedContext", endedContext},
	{"Concurrency", concurrency},
}

// Exercise runs the suite.
func Exercise(t *testing.T, newBus NewBus) {
	var calls, ran atomic.Int64
	t.Run("Cases", func(t *testing.T) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				ran.Add(1)
				c.run(t, func(t *testing.T, detailTypes []string) (bus.Bus, Receive) {
					b, receive := newBus(t, detailTypes)
					return recorder{&calls, b}, receive
				})
			})
		}
	})
	if int(ran.Load()) < len(cases) {
		return // a -run pattern excluded cases
	}
	require.Equal(t, 1, reflect.TypeFor[bus.Bus]().NumMethod(), "the port has a method that has no case")
	require.Positive(t, calls.Load(), "the suite never calls Publish")
}

type recorder struct {
	calls *atomic.Int64
	next  bus.Bus
}

func (r recorder) Publish(ctx context.Context, events ...bus.Event) error {
	r.calls.Add(1)
	return r.next.Publish(ctx, events...)
}

// received is an event with its envelope.
type received struct {
	bus.Envelope
	event bus.Event
}

// collect receives n distinct events, keyed by their details without white
// space, which EventBridge may change. An event may arrive twice.
func collect(t *testing.T, receive Receive, n int) map[string]received {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got := make(map[string]received)
	for len(got) < n && ctx.Err() == nil {
		for _, e := range receive(ctx, n-len(got)) {
			var compact bytes.Buffer
			event, err := e.Event()
			require.NoError(t, err)
			require.NoError(t, json.Compact(&compact, event.Detail))
			got[compact.String()] = received{e, event}
		}
	}
	require.Len(t, got, n, "the others did not arrive")
	return got
}

// quiet asserts that nothing arrives for a while.
func quiet(t *testing.T, receive Receive) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), settle)
	defer cancel()
	require.Empty(t, receive(ctx, 1))
}

func numbered(detailType string, n int) bus.Event {
	return bus.Event{DetailType: detailType, Detail: fmt.Appendf(nil, `{"n":%d}`, n), Workspace: "ws_1", Time: time.Now()}
}

func envelope(t *testing.T, newBus NewBus) {
	b, receive := newBus(t, []string{"run.finished"})
	at := time.Date(2024, 2, 29, 23, 59, 58, 900_000_000, time.FixedZone("", 3600))
	// EventBridge accepts integers of up to 64 bits.
	detail := `{"run_id":"r1","text":"ü <&> \" \u2028","n":1234567890123456789,"nested":{"a":[1,null]}}`
	require.NoError(t, b.Publish(t.Context(),
		bus.Event{DetailType: "run.finished", Detail: []byte(detail), Workspace: "ws_1", Time: at},
		bus.Event{DetailType: "run.finished", Detail: []byte(`{}`), Time: at, ID: "i", Version: 2, DedupeKey: "k"}))
	seen := make(map[string]bool)
	for text, e := range collect(t, receive, 2) {
		seen[e.ID] = true
		assert.NotEmpty(t, e.ID)
		assert.Equal(t, "0", e.Version)
		assert.Equal(t, "run.finished", e.DetailType)
		assert.Equal(t, bus.Source, e.Source)
		assert.NotEmpty(t, e.Account)
		assert.NotEmpty(t, e.Region)
		assert.Equal(t, at.UTC().Truncate(time.Second), e.Time.UTC(), "whole seconds")
		assert.Equal(t, at.UTC(), e.event.Time, "milliseconds")
		assert.Equal(t, "run.finished", e.event.DetailType)
		assert.Equal(t, e.Workspace(), e.event.Workspace)
		if text == "{}" {
			assert.Empty(t, e.Workspace())
			assert.Empty(t, e.Resources)
			assert.Equal(t, []any{"i", 2, "k"}, []any{e.event.ID, e.event.Version, e.event.DedupeKey})
			continue
		}
		assert.Equal(t, "ws_1", e.Workspace())
		assert.JSONEq(t, detail, text)
		assert.Contains(t, text, "1234567890123456789", "numbers keep their digits")
		assert.Equal(t, 1, e.event.Version)
		assert.Len(t, e.event.ID, 26)
	}
	assert.Len(t, seen, 2, "each event has an id of its own")
}

func timeOfPublishing(t *testing.T, newBus NewBus) {
	b, receive := newBus(t, []string{"a"})
	require.NoError(t, b.Publish(t.Context(), bus.Event{DetailType: "a", Detail: []byte(`{}`)}))
	for _, e := range collect(t, receive, 1) {
		assert.WithinDuration(t, time.Now(), e.Time, patience)
	}
}

// publishedAgain checks that an event published twice has two ids and one
// dedupe key, and that another event has another key.
func publishedAgain(t *testing.T, newBus NewBus) {
	b, receive := newBus(t, []string{"a"})
	require.NoError(t, b.Publish(t.Context(), numbered("a", 1), numbered("a", 1), numbered("a", 2)))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	keys := map[string]string{} // by id
	for len(keys) < 3 && ctx.Err() == nil {
		for _, e := range receive(ctx, 3-len(keys)) {
			event, err := e.Event()
			require.NoError(t, err)
			keys[event.ID] = event.DedupeKey
		}
	}
	count := map[string]int{}
	for _, key := range keys {
		count[key]++
	}
	assert.ElementsMatch(t, []int{1, 2}, slices.Collect(maps.Values(count)))
}

func rulePicks(t *testing.T, newBus NewBus) {
	b, receive := newBus(t, []string{"run.finished", "run.started"})
	require.NoError(t, b.Publish(t.Context(),
		numbered("run", 1), numbered("run.finished", 2), numbered("run.finished.late", 3),
		numbered("RUN.FINISHED", 4), numbered("run.started", 5), numbered("flow.created", 6)))
	got := collect(t, receive, 2)
	assert.Contains(t, got, `{"n":2}`)
	assert.Contains(t, got, `{"n":5}`)
	quiet(t, receive)
}

func manyBatches(t *testing.T, newBus NewBus) {
	b, receive := newBus(t, []string{"a"})
	events := make([]bus.Event, 3*bus.MaxBatch+2)
	for i := range events {
		events[i] = numbered("a", i)
	}
	require.NoError(t, b.Publish(t.Context(), events...))
	collect(t, receive, len(events))
}

// largeEvents publishes more in one call than one request of EventBridge may
// hold.
func largeEvents(t *testing.T, newBus NewBus) {
	b, receive := newBus(t, []string{"a"})
	events := make([]bus.Event, 3)
	for i, fill := range []string{"a", "<", "&"} { // no escapes may be added
		event := bus.Event{DetailType: "a", Workspace: "ws_1", Time: time.Now(), Detail: []byte(`{"x":""}`)}
		pad := strings.Repeat(fill, bus.MaxEntry-event.Size())
		event.Detail = []byte(`{"x":"` + pad + `"}`)
		events[i] = event
	}
	require.NoError(t, b.Publish(t.Context(), events...))
	got := collect(t, receive, len(events))
	for _, event := range events {
		_, ok := got[string(event.Detail)]
		assert.True(t, ok)
	}
}

func nothing(t *testing.T, newBus NewBus) {
	b, receive := newBus(t, []string{"a"})
	require.NoError(t, b.Publish(t.Context()))
	quiet(t, receive)
}

func limits(t *testing.T, newBus NewBus) {
	b, receive := newBus(t, []string{"a"})
	large := []byte(`{"x":"` + strings.Repeat("x", bus.MaxEntry) + `"}`)
	for what, event := range map[string]bus.Event{
		"no type":          {Detail: []byte(`{}`)},
		"long type":        {DetailType: strings.Repeat("a", 129), Detail: []byte(`{}`)},
		"no detail":        {DetailType: "a"},
		"long key":         {DetailType: "a", Detail: []byte(`{}`), DedupeKey: strings.Repeat("k", 257)},
		"long id":          {DetailType: "a", Detail: []byte(`{}`), ID: strings.Repeat("k", 257)},
		"version":          {DetailType: "a", Detail: []byte(`{}`), Version: -1},
		"detail no object": {DetailType: "a", Detail: []byte(`[]`)},
		"detail no JSON":   {DetailType: "a", Detail: []byte(`{"a":}`)},
		"large":            {DetailType: "a", Detail: large},
	} {
		assert.ErrorIs(t, b.Publish(t.Context(), numbered("a", 1), event), bus.ErrLimit, what)
	}
	quiet(t, receive) // all events are checked before any is sent
}

func endedContext(t *testing.T, newBus NewBus) {
	b, _ := newBus(t, []string{"a"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.Publish(ctx, numbered("a", 1)), context.Canceled)
}

func concurrency(t *testing.T, newBus NewBus) {
	const publishers, each = 8, 25
	b, receive := newBus(t, []string{"a"})
	var group sync.WaitGroup
	for p := range publishers {
		group.Go(func() {
			for i := range each {
				assert.NoError(t, b.Publish(t.Context(), numbered("a", p*each+i)))
			}
		})
	}
	collect(t, receive, publishers*each)
	group.Wait()
}
