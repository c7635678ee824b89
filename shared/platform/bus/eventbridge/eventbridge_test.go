package eventbridge

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/bus"
)

// request is the part of EventBridge's JSON protocol that the driver sends.
type request struct {
	Entries []struct {
		EventBusName, Source, DetailType, Detail string
		Resources                                []string
		Time                                     *float64
	}
}

// serve answers every PutEvents by handle, which gets its number, from 1.
func serve(t *testing.T, handle func(n int) (int, string)) (*Bus, *[]request) {
	t.Helper()
	var seen []request
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var r request
		assert.NoError(t, json.NewDecoder(req.Body).Decode(&r))
		seen = append(seen, r) // one request after the other
		status, body := handle(len(seen))
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(web.Close)
	b := New(Config{Bus: "events", AWS: func(context.Context) (aws.Config, error) {
		return aws.Config{
			Region: "us-east-1", BaseEndpoint: &web.URL,
			Credentials: credentials.NewStaticCredentialsProvider("access", "secret", ""),
		}, nil
	}})
	b.backoff = time.Millisecond
	return b, &seen
}

// answer makes PutEvents' answer: a code for each entry, "" for success.
func answer(codes ...string) string {
	var entries []string
	failed := 0
	for _, code := range codes {
		if code == "" {
			entries = append(entries, `{"EventId":"1"}`)
			continue
		}
		failed++
		entries = append(entries, fmt.Sprintf(`{"ErrorCode":%q,"ErrorMessage":"said EventBridge"}`, code))
	}
	return fmt.Sprintf(`{"FailedEntryCount":%d,"Entries":[%s]}`, failed, strings.Join(entries, ","))
}

func some(types ...string) []bus.Event {
	events := make([]bus.Event, len(types))
	for i, name := range types {
		events[i] = bus.Event{DetailType: name, Detail: []byte(`{}`)}
	}
	return events
}

func TestEventOnTheWire(t *testing.T) {
	t.Parallel()
	b, seen := serve(t, func(int) (int, string) { return 200, answer("", "") })
	require.NoError(t, b.Publish(t.Context(), some("a")[0],
		bus.Event{DetailType: "b", Detail: []byte(`{ "x":"<ü>" }`), Workspace: "ws_1", Time: time.Unix(1700000000, 0), ID: "i", DedupeKey: "k"}))
	first, second := (*seen)[0].Entries[0], (*seen)[0].Entries[1]
	assert.Equal(t, "events", first.EventBusName)
	assert.Equal(t, bus.Source, first.Source)
	require.NotNil(t, first.Time)
	assert.InDelta(t, time.Now().Unix(), *first.Time, 60, "the time of publishing")
	assert.Empty(t, first.Resources)
	assert.Equal(t, "b", second.DetailType)
	assert.Equal(t, `{"id":"i","type":"b","version":1,"org_id":"ws_1","time":"2023-11-14T22:13:20.000Z","dedupe_key":"k","data":{"x":"<ü>"}}`, second.Detail)
	assert.Equal(t, []string{"workspace/ws_1"}, second.Resources)
	require.NotNil(t, second.Time)
	assert.EqualValues(t, 1700000000, *second.Time)
}

func TestRequestsKeepLimits(t *testing.T) {
	t.Parallel()
	b, seen := serve(t, func(int) (int, string) { return 200, answer() })
	var events []bus.Event
	for i := range 40 {
		events = append(events, bus.Event{DetailType: "a", Detail: []byte(`{"x":"` + strings.Repeat("x", i*6000) + `"}`)})
	}
	require.NoError(t, b.Publish(t.Context(), events...))
	total := 0
	for _, r := range *seen {
		size := 0
		for _, e := range r.Entries {
			size += len(e.Source) + len(e.DetailType) + len(e.Detail)
			total++
		}
		assert.LessOrEqual(t, size, bus.MaxEntry)
		assert.LessOrEqual(t, len(r.Entries), bus.MaxBatch)
	}
	assert.Equal(t, len(events), total)
}

func TestRefusedEventsAreResent(t *testing.T) {
	t.Parallel()
	b, seen := serve(t, func(n int) (int, string) {
		switch n {
		case 1:
			return 200, answer("", "ThrottlingException", "", "InternalFailure")
		case 2:
			return 200, answer("", "InternalFailure")
		}
		return 200, answer("")
	})
	require.NoError(t, b.Publish(t.Context(), some("a", "b", "c", "d")...))
	var sent []string
	for _, r := range (*seen)[1:] {
		for _, e := range r.Entries {
			sent = append(sent, e.DetailType)
		}
	}
	assert.Equal(t, []string{"b", "d", "d"}, sent)
}

func TestPublishGivesUp(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status   int
		body     string
		says     string
		requests int
	}{
		{200, answer("ThrottlingException"), "event a rejected (ThrottlingException", maxAttempts},
		{200, answer("MalformedDetail"), "event a rejected (MalformedDetail", 1},
		{200, `{"FailedEntryCount":1,"Entries":[]}`, "without saying which", 1},
		{200, `{"FailedEntryCount":1,"Entries":[{}]}`, "without saying which", 1},
		{500, `{"__type":"InternalException"}`, "InternalException", maxAttempts},
		{400, `{"__type":"ResourceNotFoundException"}`, "publish to events", 1},
	} {
		b, seen := serve(t, func(int) (int, string) { return test.status, test.body })
		require.ErrorContains(t, b.Publish(t.Context(), some("a")...), test.says)
		assert.Len(t, *seen, test.requests, test.says)
	}
	b, _ := serve(t, func(int) (int, string) { return 413, `{"__type":"PutEventsRequestTooLong"}` })
	require.ErrorIs(t, b.Publish(t.Context(), some("a")...), bus.ErrLimit)
}

func TestConfigurationThatDoesNotLoad(t *testing.T) {
	t.Parallel()
	b := New(Config{Bus: "events", AWS: func(context.Context) (aws.Config, error) { return aws.Config{}, assert.AnError }})
	require.ErrorIs(t, b.Publish(t.Context(), some("a")...), assert.AnError)
	require.NoError(t, b.Publish(t.Context()), "nothing needs no client")
}
