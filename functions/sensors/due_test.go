package sensors_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/schedulertick"
	"millrace/functions/sensors"
	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/web/fn"
)

// source is a server that sensors poll.
type source struct {
	*httptest.Server
	mu    sync.Mutex
	asked int
	body  func(asked int) string
}

// newSource returns a server whose responses have the body, until it is set
// again.
func newSource(t *testing.T, body string) *source {
	t.Helper()
	s := &source{}
	s.set(body)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		s.asked++
		text := s.body(s.asked)
		s.mu.Unlock()
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *source) set(body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.body = func(int) string { return body }
}

// requests returns the number of requests since the last call.
func (s *source) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.asked
	s.asked = 0
	return n
}

// faulty is a table whose updates of sensors fail, one time each that is in
// fails, counted from 1.
type faulty struct {
	table.Table
	mu      sync.Mutex
	updates int
	fails   map[int]bool
}

func (f *faulty) Update(ctx context.Context, u table.Update) (table.Item, error) {
	if strings.HasSuffix(u.Key.PK, "#sensors") {
		f.mu.Lock()
		f.updates++
		fail := f.fails[f.updates]
		f.mu.Unlock()
		if fail {
			return nil, table.ErrThrottled
		}
	}
	return f.Table.Update(ctx, u)
}

// openLocal is open for sensors that may poll this machine.
func openLocal(t *testing.T, o localtest.Options) *world {
	t.Helper()
	o.Config = fn.Config{AllowLoopback: true}
	w := open(t, o)
	now, err := time.Parse(time.RFC3339, "2027-03-04T05:00:00Z")
	require.NoError(t, err)
	w.Clock.Set(now)
	return w
}

// polls creates a polling sensor and returns its id.
func (w *world) polls(url string, config object) string {
	w.t.Helper()
	all := object{"url": url, "json_path": "ready"}
	for name, value := range config {
		all[name] = value
	}
	return w.create("polling", all, object{"flow_params_json": object{"day": "monday"}}).Require(w.t, 201).String(w.t, "sensor_id")
}

// tick makes a tick and returns the messages of sensors that are due.
func (w *world) tick() (all []lambda.SQSMessage) {
	w.t.Helper()
	_, err := schedulertick.For(sensors.Poll).Handle(w.Deps)(w.t.Context(), json.RawMessage(`{"event_type":"scheduler_tick"}`))
	require.NoError(w.t, err)
	for {
		batch, err := w.Deps.Queues.Receive(w.t.Context(), sensors.Poll.Queue(), queue.MaxBatch, 0)
		require.NoError(w.t, err)
		if len(batch) == 0 {
			return all
		}
		for _, m := range batch {
			all = append(all, lambda.SQSMessage{MessageId: m.ID, ReceiptHandle: m.Receipt, Body: string(m.Body)})
			require.NoError(w.t, w.Deps.Queues.Delete(w.t.Context(), sensors.Poll.Queue(), m.Receipt))
		}
	}
}

// handle handles a batch of messages and returns the number of those that are to
// be delivered again.
func (w *world) handle(batch ...lambda.SQSMessage) int {
	w.t.Helper()
	out, err := sensors.PollSpec.Messages(w.Deps)(w.t.Context(), lambda.SQSEvent{Records: batch})
	assert.NoError(w.t, err)
	return len(out.BatchItemFailures)
}

// poll makes a tick, handles its messages and returns their number.
func (w *world) poll() int {
	w.t.Helper()
	messages := w.tick()
	require.Zero(w.t, w.handle(messages...))
	return len(messages)
}

// runs returns the workspace's runs, the newest first.
func (w *world) runs() (all []object) {
	w.t.Helper()
	for _, item := range w.Do(w.t, w.A.Key, "GET", "/runs", nil).Require(w.t, 200).Items(w.t) {
		all = append(all, item.(object))
	}
	return all
}

// minute is a minute after the tests begin.
type minute int

// tells checks fields of a sensor; nil means that it has none of the name.
func (w *world) tells(id string, want object) {
	w.t.Helper()
	got := w.get(id).Require(w.t, 200).Object(w.t)
	for name, value := range want {
		if m, ok := value.(minute); ok {
			assert.Contains(w.t, got[name], fmt.Sprintf("2027-03-04T05:%02d:", m), name)
			continue
		}
		assert.Equal(w.t, value, got[name], name)
	}
}

func TestPolling(t *testing.T) {
	t.Parallel()
	w := openLocal(t, localtest.Options{})
	source := newSource(t, `{"ready":false}`)
	id := w.polls(source.URL, nil)
	w.tells(id, object{"next_poll_at": minute(0), "last_polled_at": nil, "last_status": nil, "stopped_at": nil})
	assert.Equal(t, 1, w.poll(), "at once")
	w.tells(id, object{"next_poll_at": minute(5), "last_polled_at": minute(0), "last_status": json.Number("200"), "last_error": nil})
	assert.Zero(t, w.poll())
	w.Clock.Advance(12 * time.Minute)
	assert.Equal(t, 1, w.poll(), "the polls that were missed are one")
	w.tells(id, object{"next_poll_at": minute(15), "last_polled_at": minute(12)})
	assert.Empty(t, w.runs())
	assert.Equal(t, 2, source.requests())

	source.set(`{"ready":true}`)
	w.Clock.Advance(4 * time.Minute)
	w.poll()
	runs := w.runs()
	require.Len(t, runs, 1)
	assert.Equal(t, "sensor", runs[0]["trigger_source"])
	assert.Equal(t, "sensor:"+id, runs[0]["triggered_by"])
	assert.Equal(t, "daily", runs[0]["flow_name"])
	detail := w.Do(t, w.A.Key, "GET", "/runs/"+runs[0]["run_id"].(string), nil).Require(t, 200)
	assert.Equal(t, object{"day": "monday"}, detail.Get(t, "parameters"), "nothing of the response")
	w.tells(id, object{
		"next_poll_at": nil, "stopped_at": minute(16), "last_matched_at": minute(16), "last_polled_at": minute(16),
		"last_run_id": runs[0]["run_id"], "last_error": nil, "enabled": true,
	})
	w.Clock.Advance(24 * time.Hour)
	assert.Zero(t, w.poll(), "it has stopped")
	assert.Equal(t, 1, source.requests())
}

// TestMonthlyQuotaDelaysTheRunOfAMatch until the next month: the URL is not asked
// again, and no message comes again and again.
func TestMonthlyQuotaDelaysTheRunOfAMatch(t *testing.T) {
	t.Parallel()
	w := openLocal(t, localtest.Options{Limits: []string{"runs-per-month=1"}})
	source := newSource(t, `{"ready":true}`)
	first, second := w.polls(source.URL, nil), w.polls(source.URL, nil)
	for range 3 {
		w.poll()
		w.Clock.Advance(2 * time.Minute)
	}
	assert.Len(t, w.runs(), 1)
	assert.Equal(t, 2, source.requests())
	if w.get(first).Get(t, "last_error") != nil {
		second = first
	}
	assert.Contains(t, w.get(second).String(t, "last_error"), "runs-per-month")
	w.Clock.Advance(31 * 24 * time.Hour)
	w.poll()
	assert.Len(t, w.runs(), 2)
	assert.Zero(t, source.requests())
	w.tells(second, object{"last_error": nil, "next_poll_at": nil})
}

func TestAllowConcurrentRunsAtEveryMatch(t *testing.T) {
	t.Parallel()
	w := openLocal(t, localtest.Options{})
	source := newSource(t, `{"ready":true}`)
	id := w.polls(source.URL, object{"allow_concurrent": true, "interval_seconds": 60})
	for i := range 4 {
		w.poll()
		w.tells(id, object{"next_poll_at": minute(i + 1), "last_matched_at": minute(i), "stopped_at": nil})
		w.Clock.Advance(time.Minute)
	}
	assert.Len(t, w.runs(), 4)
	source.set(`{}`)
	w.poll()
	w.tells(id, object{"last_matched_at": minute(3), "last_polled_at": minute(4)})
	assert.Len(t, w.runs(), 4)
	assert.Equal(t, 5, source.requests())
}

// TestFailedPollsGoOn: they tell the error, and the next one without an error
// clears it.
func TestFailedPollsGoOn(t *testing.T) {
	t.Parallel()
	w := openLocal(t, localtest.Options{})
	source := newSource(t, `{"ready":tru`)
	id := w.polls(source.URL, nil)
	w.poll()
	w.tells(id, object{"last_error": "the response is not valid JSON", "last_error_at": minute(0), "last_status": json.Number("200"), "next_poll_at": minute(5)})
	source.set(`{"ready":null}`)
	w.Clock.Advance(5 * time.Minute)
	w.poll()
	w.tells(id, object{"last_error": nil, "last_error_at": nil, "last_status": json.Number("200")})
	source.Close()
	w.Clock.Advance(5 * time.Minute)
	w.poll()
	w.tells(id, object{"last_error": "the request failed: dial: connect: connection refused", "last_status": nil, "next_poll_at": minute(15)})
	assert.Empty(t, w.runs())
}

// TestRefusedRunsGoOn: a match that can start no run is none.
func TestRefusedRunsGoOn(t *testing.T) {
	t.Parallel()
	w := openLocal(t, localtest.Options{})
	source := newSource(t, `{"ready":true}`)
	unregistered := w.create("polling", object{"url": source.URL}, object{"flow_name": "weekly"}).Require(t, 201).String(t, "sensor_id")
	invalid := w.create("polling", object{"url": source.URL}, object{"flow_params_json": object{"day": 7}}).Require(t, 201).String(t, "sensor_id")
	w.poll()
	for id, why := range map[string]string{unregistered: "Flow 'weekly' is not registered", invalid: "parameters.day"} {
		w.tells(id, object{"last_matched_at": nil, "stopped_at": nil, "next_poll_at": minute(5)})
		assert.Contains(t, w.get(id).String(t, "last_error"), why)
	}
	assert.Empty(t, w.runs())
	w.flow("weekly", "1")
	w.Clock.Advance(5 * time.Minute)
	source.set("")
	w.poll()
	assert.Len(t, w.runs(), 1)
	w.tells(unregistered, object{"last_error": nil, "stopped_at": minute(5)})
}

// TestCrashRepeatsNothing: whichever write of a poll fails, there is one run,
// also if the response does not match any more when the poll is repeated after
// the match was stored.
func TestCrashRepeatsNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fails []int // updates: 1 is the tick's, 2 stores the match, 3 the run
		runs  int
		asked int
	}{
		"none":                     {nil, 1, 1},
		"the match is not stored":  {[]int{2}, 0, 2},
		"the run is not stored":    {[]int{3}, 1, 1},
		"neither at first":         {[]int{2, 4}, 0, 2},
		"the run is stored late":   {[]int{3, 4}, 1, 1},
		"the tick does not note":   {[]int{1}, 1, 1},
		"nor is the run stored":    {[]int{1, 3}, 1, 1},
		"nor is the match, before": {[]int{1, 2}, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broken := &faulty{fails: map[int]bool{}}
			for _, n := range c.fails {
				broken.fails[n] = true
			}
			w := openLocal(t, localtest.Options{Wrap: func(next table.Table) table.Table { broken.Table = next; return broken }})
			source := newSource(t, "")
			source.body = func(asked int) string { return fmt.Sprintf(`{"ready":%t}`, asked == 1) }
			id := w.polls(source.URL, nil)
			messages := w.tick()
			for range 3 { // it is delivered until it succeeds, and once more
				w.handle(messages...)
			}
			assert.Len(t, w.runs(), c.runs)
			assert.Equal(t, c.asked, source.requests())
			if c.runs == 1 {
				w.tells(id, object{"stopped_at": minute(0), "last_run_id": w.runs()[0]["run_id"]})
			} else {
				w.tells(id, object{"stopped_at": nil, "next_poll_at": minute(5)})
			}
		})
	}
}

// TestConcurrentDuplicatesAgree: of one message delivered several times at once,
// with different responses, one decides, so that a sensor with a run has stopped.
func TestConcurrentDuplicatesAgree(t *testing.T) {
	t.Parallel()
	w := openLocal(t, localtest.Options{})
	var asked sync.WaitGroup // so that all requests are made before there is a response
	asked.Add(4)
	var n int
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		n++
		ready := n%2 == 0
		mu.Unlock()
		asked.Done()
		asked.Wait()
		_, _ = fmt.Fprintf(w, `{"ready":%t}`, ready)
	}))
	t.Cleanup(server.Close)
	id := w.polls(server.URL, object{"timeout_seconds": 30})
	m := w.tick()[0]
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for w.handle(m) > 0 { // the run is being made elsewhere
			}
		})
	}
	all.Wait()
	runs := w.runs()
	if len(runs) > 0 {
		require.Len(t, runs, 1)
		w.tells(id, object{"stopped_at": minute(0), "last_run_id": runs[0]["run_id"], "next_poll_at": nil})
		return
	}
	w.tells(id, object{"stopped_at": nil, "next_poll_at": minute(5)})
}

// TestMatchIsKeptByALaterResponse: a response that does not match, and arrives
// after another delivery's match was stored and before its run is, changes
// nothing.
func TestMatchIsKeptByALaterResponse(t *testing.T) {
	t.Parallel()
	broken := &faulty{fails: map[int]bool{3: true}} // 1 is the tick's, 2 stores the match, 3 the run
	w := openLocal(t, localtest.Options{Wrap: func(next table.Table) table.Table { broken.Table = next; return broken }})
	var m lambda.SQSMessage
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		first := asked.Add(1) == 1
		if first {
			assert.Equal(t, 1, w.handle(m), "its run is not stored")
		}
		_, _ = fmt.Fprintf(out, `{"ready":%t}`, !first)
	}))
	t.Cleanup(server.Close)
	id := w.polls(server.URL, object{"timeout_seconds": 30})
	m = w.tick()[0]
	assert.Zero(t, w.handle(m))
	assert.Zero(t, w.handle(m), "the match is still there")
	runs := w.runs()
	require.Len(t, runs, 1)
	w.tells(id, object{"stopped_at": minute(0), "last_run_id": runs[0]["run_id"], "next_poll_at": nil})
	assert.EqualValues(t, 2, asked.Load())
}

// TestHangingSensorStopsNoOther: the others of its batch are polled and start
// their runs while it waits.
func TestHangingSensorStopsNoOther(t *testing.T) {
	t.Parallel()
	w := openLocal(t, localtest.Options{})
	source := newSource(t, `{"ready":true}`)
	release := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(hanging.Close)
	slow := w.polls(hanging.URL, object{"timeout_seconds": 30})
	var quick []string
	for range 9 {
		quick = append(quick, w.polls(source.URL, nil))
	}
	messages := w.tick()
	require.Len(t, messages, 10)
	done := make(chan int)
	go func() { done <- w.handle(messages...) }()
	for _, id := range quick {
		require.Eventually(t, func() bool { return w.get(id).Require(t, 200).Object(t)["stopped_at"] != nil }, 20*time.Second, 2*time.Millisecond)
	}
	w.tells(slow, object{"last_polled_at": nil})
	close(release)
	assert.Zero(t, <-done)
	w.tells(slow, object{"last_polled_at": minute(0), "last_error": "the response is not valid JSON"})
	assert.Len(t, w.runs(), 9)
}

// TestLimitDelaysARun: the match is kept, and its URL not asked again.
func TestLimitDelaysARun(t *testing.T) {
	t.Parallel()
	w := openLocal(t, localtest.Options{Limits: []string{"runs-per-minute=1"}})
	source := newSource(t, `{"ready":true}`)
	first, second := w.polls(source.URL, nil), w.polls(source.URL, nil)
	messages := w.tick()
	require.Len(t, messages, 2)
	assert.Zero(t, w.handle(messages[0]))
	assert.Equal(t, 1, w.handle(messages[1]))
	source.set(`{"ready":false}`)
	if w.get(first).Require(t, 200).Object(t)["stopped_at"] != nil {
		first, second = second, first
	}
	assert.Contains(t, w.get(first).String(t, "last_error"), "runs-per-minute")
	w.tells(second, object{"last_error": nil})
	w.Clock.Advance(10 * time.Minute)
	assert.Equal(t, 1, w.poll())
	assert.Len(t, w.runs(), 2)
	w.tells(first, object{"last_error": nil, "stopped_at": minute(10), "last_polled_at": minute(0)})
	assert.Equal(t, 2, source.requests())
}

func TestDeletedSensorPollsNoMore(t *testing.T) {
	t.Parallel()
	w := openLocal(t, localtest.Options{})
	source := newSource(t, `{"ready":true}`)
	id := w.polls(source.URL, nil)
	messages := w.tick()
	w.Do(t, w.A.Key, "DELETE", "/sensors/"+id, nil).Require(t, 200)
	assert.Zero(t, w.handle(messages...))
	w.Clock.Advance(time.Hour)
	assert.Zero(t, w.poll())
	assert.Zero(t, source.requests())

	// It is deleted while its URL is asked.
	id = ""
	source.body = func(int) string {
		w.Do(t, w.A.Key, "DELETE", "/sensors/"+id, nil).Require(t, 200)
		return `{"ready":true}`
	}
	id = w.polls(source.URL, nil)
	assert.Equal(t, 1, w.poll())
	assert.Equal(t, 1, source.requests())
	assert.Empty(t, w.runs())
}

// TestThrottledTableLeavesAPollDue: the message is delivered again, and the tick
// hands the sensor out again if it is lost.
func TestThrottledTableLeavesAPollDue(t *testing.T) {
	t.Parallel()
	broken := &faulty{fails: map[int]bool{2: true}}
	w := openLocal(t, localtest.Options{Wrap: func(next table.Table) table.Table { broken.Table = next; return broken }})
	source := newSource(t, `{"ready":false}`)
	id := w.polls(source.URL, nil)
	assert.Equal(t, 1, w.handle(w.tick()...))
	w.tells(id, object{"last_polled_at": nil, "next_poll_at": minute(0)})
	w.Clock.Advance(2 * time.Minute)
	assert.Equal(t, 1, w.poll())
	w.tells(id, object{"last_polled_at": minute(2), "next_poll_at": minute(5)})
}

func TestPollsReachNoPrivateAddress(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{Config: fn.Config{OutboundHelp: "ask the operator"}})
	source := newSource(t, `{"ready":true}`)
	id := w.polls(source.URL, nil)
	w.poll()
	w.tells(id, object{"last_error": "url leads to an address that sensors may not reach: ask the operator", "last_status": nil})
	assert.Zero(t, source.requests())
	assert.Empty(t, w.runs())
}

// TestPollingDryRun asks the URL, and changes nothing.
func TestPollingDryRun(t *testing.T) {
	t.Parallel()
	w := openLocal(t, localtest.Options{})
	source := newSource(t, `{"ready":true}`)
	id := w.polls(source.URL, nil)
	before, audited := w.get(id).Object(t), w.AuditCount(t, w.A.OrgID)
	try := func(id string, triggers bool, version, reason any) {
		t.Helper()
		got := w.Do(t, w.A.Key, "POST", "/sensors/"+id+"/test", nil).Require(t, 200).Object(t)
		assert.Equal(t, triggers, got["would_trigger"])
		assert.Equal(t, version, got["flow_version"])
		assert.Equal(t, reason, got["reason"])
		assert.Equal(t, object{"day": "monday"}, got["parameters"])
		assert.Equal(t, 1, source.requests())
	}
	try(id, true, "1", nil)
	source.set(`{"ready":false}`)
	try(id, false, "1", "ready is false, null, zero or empty")
	source.set(`<html>`)
	try(id, false, "1", "the response is not valid JSON")
	assert.Equal(t, before, w.get(id).Object(t))
	assert.Equal(t, audited, w.AuditCount(t, w.A.OrgID))
	assert.Empty(t, w.runs())

	source.set(`{"ready":true}`)
	w.poll()
	source.requests()
	try(id, false, "1", "the sensor stopped after its first match, at "+w.get(id).String(t, "stopped_at"))
	assert.Len(t, w.runs(), 1)

	unregistered := w.create("polling", object{"url": source.URL}, object{"flow_name": "weekly", "flow_params_json": object{"day": "monday"}}).Require(t, 201)
	try(unregistered.String(t, "sensor_id"), false, nil, "Flow 'weekly' is not registered")
}
