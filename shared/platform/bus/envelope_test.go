package bus_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/bus"
	"millrace/shared/platform/ids"
)

// documented is the example of EventBridge's documentation, shortened.
const documented = `{
	"version": "0",
	"id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
	"detail-type": "EC2 Instance State-change Notification",
	"source": "aws.ec2",
	"account": "111122223333",
	"time": "2017-12-22T18:43:48Z",
	"region": "us-west-1",
	"resources": ["arn:aws:ec2:us-west-1:123456789012:instance/i-1234567890abcdef0"],
	"detail": {"instance-id": "i-1234567890abcdef0", "state": "terminated"}
}`

func TestEnvelopeMatchesEventBridgeEvent(t *testing.T) {
	t.Parallel()
	e, err := bus.DecodeEnvelope([]byte(documented))
	require.NoError(t, err)
	assert.Equal(t, "EC2 Instance State-change Notification", e.DetailType)
	assert.Equal(t, time.Date(2017, 12, 22, 18, 43, 48, 0, time.UTC), e.Time)
	assert.Empty(t, e.Workspace())

	// AWS's own type reads what we write, and vice versa.
	ours, err := json.Marshal(e)
	require.NoError(t, err)
	var theirs events.EventBridgeEvent
	require.NoError(t, json.Unmarshal(ours, &theirs))
	back, err := json.Marshal(theirs)
	require.NoError(t, err)
	assert.JSONEq(t, documented, string(back))
	assert.JSONEq(t, documented, string(ours))
}

func TestDecodeEnvelopeRejectsMalformed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, json string }{
		{"nothing", ``},
		{"no JSON", `{`},
		{"another type", `[]`},
		{"null", `null`},
		{"no detail type", `{"id":"1","detail":{}}`},
		{"no id", `{"detail-type":"a","detail":{}}`},
		{"no detail", `{"id":"1","detail-type":"a"}`},
		{"detail no object", `{"id":"1","detail-type":"a","detail":[]}`},
		{"bad time", `{"id":"1","detail-type":"a","detail":{},"time":"yesterday"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := bus.DecodeEnvelope([]byte(test.json))
			require.ErrorIs(t, err, bus.ErrMalformed)
		})
	}
}

func TestEventCheck(t *testing.T) {
	t.Parallel()
	fill := func(e bus.Event) bus.Event { // up to the limit
		e.Detail = []byte(`{"x":""}`)
		pad := strings.Repeat("x", bus.MaxEntry-e.Size())
		e.Detail = []byte(`{"x":"` + pad + `"}`)
		return e
	}
	full := fill(bus.Event{DetailType: "a", Workspace: "ws", Time: time.Unix(1, 0)})
	over := full
	over.Workspace = "ws1"
	for _, test := range []struct {
		name  string
		event bus.Event
		ok    bool
	}{
		{"small", bus.Event{DetailType: "a", Detail: []byte(`{}`)}, true},
		{"white space", bus.Event{DetailType: "a", Detail: []byte("\n {} ")}, true},
		{"full", full, true},
		{"too large", over, false},
		{"no type", bus.Event{Detail: []byte(`{}`)}, false},
		{"long type", bus.Event{DetailType: strings.Repeat("t", 129), Detail: []byte(`{}`)}, false},
		{"no detail", bus.Event{DetailType: "a"}, false},
		{"detail no object", bus.Event{DetailType: "a", Detail: []byte(`"{"`)}, false},
		{"detail no JSON", bus.Event{DetailType: "a", Detail: []byte(`{]`)}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if err := test.event.Check(); test.ok {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, bus.ErrLimit)
			}
		})
	}
	require.Equal(t, bus.MaxEntry, full.Size())
}

func TestWorkspaceIsSentAsResource(t *testing.T) {
	t.Parallel()
	event := bus.Event{Workspace: "ws_1"}
	assert.Equal(t, "ws_1", bus.Envelope{Resources: event.Resources()}.Workspace())
	assert.Equal(t, []string{}, bus.Event{}.Resources(), "an array in JSON, not null")
}

// published returns an event as it is received.
func published(t *testing.T, e bus.Event) bus.Envelope {
	t.Helper()
	detail, err := e.Complete(time.UnixMilli(1), "id").Body()
	require.NoError(t, err)
	return bus.Envelope{ID: "1", DetailType: e.DetailType, Resources: e.Resources(), Detail: detail}
}

func TestPublishedEventRoundTrips(t *testing.T) {
	t.Parallel()
	plain := bus.Event{DetailType: "a", Detail: []byte(`{"x":"<ü>"}`), Workspace: "ws"}
	full := bus.Event{DetailType: "a", Detail: []byte(`{}`), Time: time.UnixMilli(1234).UTC(), ID: "i", Version: 3, DedupeKey: "\"k\""}
	for _, e := range []bus.Event{plain, full} {
		envelope := published(t, e)
		got, err := envelope.Event()
		require.NoError(t, err)
		assert.Equal(t, e.Complete(time.UnixMilli(1).UTC(), "id"), got)
	}
	one, err := published(t, plain).Event()
	require.NoError(t, err)
	other := plain
	other.Time, other.ID = time.UnixMilli(99), "another"
	again, err := published(t, other).Event()
	require.NoError(t, err)
	assert.Equal(t, one.DedupeKey, again.DedupeKey, "of the detail alone")
	other.Detail = []byte(`{"x":"y"}`)
	again, err = published(t, other).Event()
	require.NoError(t, err)
	assert.NotEqual(t, one.DedupeKey, again.DedupeKey)
}

func TestSizeMatchesSentEntry(t *testing.T) {
	t.Parallel()
	for _, e := range []bus.Event{
		{DetailType: "a", Detail: []byte(`{}`)},
		{DetailType: "run.finished", Detail: []byte(`{"x":"<&>"}`), Workspace: "ws", ID: "i", Version: 12, DedupeKey: "k", Time: time.UnixMilli(5)},
	} {
		sent := e.Complete(time.Unix(1, 0), ids.New(time.Unix(1, 0)))
		body, err := sent.Body()
		require.NoError(t, err)
		resources := 0
		for _, r := range e.Resources() {
			resources += len(r)
		}
		assert.Equal(t, len(bus.Source)+len(e.DetailType)+len(body)+resources+14, e.Size())
	}
}

func TestEventRejectsMalformedEnvelope(t *testing.T) {
	t.Parallel()
	const at = `"time":"2026-01-31T00:00:05.120Z"`
	for name, detail := range map[string]string{
		"nothing":           `{}`,
		"another shape":     `{"id":1}`,
		"no time":           `{"id":"i","type":"a","version":1,"org_id":"ws","dedupe_key":"k","data":{}}`,
		"another type":      `{"id":"i","type":"b","version":1,"org_id":"ws","dedupe_key":"k","data":{},` + at + `}`,
		"another workspace": `{"id":"i","type":"a","version":1,"org_id":"ws2","dedupe_key":"k","data":{},` + at + `}`,
		"no id":             `{"type":"a","version":1,"org_id":"ws","dedupe_key":"k","data":{},` + at + `}`,
		"no dedupe key":     `{"id":"i","type":"a","version":1,"org_id":"ws","data":{},` + at + `}`,
		"no version":        `{"id":"i","type":"a","org_id":"ws","dedupe_key":"k","data":{},` + at + `}`,
		"no data":           `{"id":"i","type":"a","version":1,"org_id":"ws","dedupe_key":"k",` + at + `}`,
	} {
		_, err := bus.Envelope{DetailType: "a", Resources: []string{"workspace/ws"}, Detail: []byte(detail)}.Event()
		assert.ErrorIs(t, err, bus.ErrMalformed, name)
	}
}

func FuzzDecodeEnvelope(f *testing.F) {
	f.Add([]byte(documented))
	f.Add([]byte(`{"id":"1","detail-type":"a","detail": {} }`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := bus.DecodeEnvelope(data)
		if err != nil {
			require.ErrorIs(t, err, bus.ErrMalformed)
			return
		}
		if _, err := e.Event(); err != nil {
			require.ErrorIs(t, err, bus.ErrMalformed)
		}
		again, err := json.Marshal(e)
		if err != nil {
			return // a year that RFC 3339 cannot represent
		}
		back, err := bus.DecodeEnvelope(again)
		require.NoError(t, err)
		require.Equal(t, e.ID, back.ID)
		require.Equal(t, e.Resources, back.Resources)
	})
}
