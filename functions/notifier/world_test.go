package notifier_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/localstack/embedded/localbus"
	"millrace/localstack/embedded/runtime"
	"millrace/localstack/proof/fixture"
	"millrace/localstack/proof/localtest"
	"millrace/localstack/proof/memory"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/web/fn"
)

type object = map[string]any

// call is a request that a receiver got.
type call struct {
	path string
	id   string // of a webhook
	body object
}

// receiver is a real server, for channels and for tasks of type http. It is
// outside of the test's bubble, and closes each connection, because one that is
// kept would stop the bubble's time.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	calls  []call
	answer map[string]func(n int) (status int, header http.Header) // by path, for its n-th request
}

func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{answer: map[string]func(int) (int, http.Header){}}
	r.Server = httptest.NewUnstartedServer(r)
	r.Config.SetKeepAlivesEnabled(false)
	r.Start()
	t.Cleanup(r.Close)
	return r
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	data, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	got := call{path: req.URL.Path, id: req.Header.Get("Webhook-Id")}
	_ = json.Unmarshal(data, &got.body)
	r.calls = append(r.calls, got)
	n := 0
	for _, c := range r.calls {
		if c.path == got.path {
			n++
		}
	}
	status := http.StatusOK
	if answer := r.answer[got.path]; answer != nil {
		var header http.Header
		status, header = answer(n)
		for name := range header {
			w.Header().Set(name, header.Get(name))
		}
	}
	w.WriteHeader(status)
}

// answers sets the status of all requests to a path.
func (r *receiver) answers(path string, status int) {
	r.decides(path, func(int) (int, http.Header) { return status, nil })
}

func (r *receiver) decides(path string, answer func(n int) (int, http.Header)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer[path] = answer
}

// to returns the requests to a path.
func (r *receiver) to(path string) (out []call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.calls {
		if c.path == path {
			out = append(out, c)
		}
	}
	return out
}

// world is the whole service in memory, with its bus, its tick and a time of its
// own.
type world struct {
	*localtest.Env
	t     *testing.T
	web   *receiver
	table *faulty
}

// faulty is a table whose update of a delivery fails as often as it is told,
// once the delivery was sent.
type faulty struct {
	table.Table
	mu    sync.Mutex
	fails int
}

var errDown = errors.New("the table is down")

func (f *faulty) Update(ctx context.Context, u table.Update) (table.Item, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails > 0 && strings.HasSuffix(u.Key.PK, "#deliveries") && len(u.Do) > 3 && !adds(u) {
		f.fails--
		return nil, errDown
	}
	return f.Table.Update(ctx, u)
}

// adds reports whether an update is that which takes a delivery.
func adds(u table.Update) bool {
	for _, a := range u.Do {
		if strings.Contains(fmt.Sprint(a), "tries") {
			return true
		}
	}
	return false
}

// within runs a test in a bubble, in which hours pass at once.
func within(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	web := receive(t)
	synctest.Test(t, func(t *testing.T) {
		specs := catalog.All()
		defs, rules := localtest.Queues(specs...), []localbus.Rule(nil)
		for i, spec := range specs {
			if len(spec.Trigger.DetailTypes) > 0 {
				name := catalog.BusQueue(spec)
				rules = append(rules, localbus.Rule{DetailTypes: spec.Trigger.DetailTypes, Queue: name})
				specs[i].Trigger.Queues = []fn.QueueTrigger{{Queue: name, Batch: queue.MaxBatch}}
			}
		}
		queues := memory.QueuesIn(t, memory.Store(t), clock.System{}, defs)
		w := &world{t: t, web: web, table: &faulty{}}
		w.Env = localtest.Open(t, localtest.Options{
			Blob: &blobtest.Memory{}, Queues: queues, Bus: localbus.New(queues, rules),
			Config: fn.Config{AllowLoopback: true, LongLived: true, LinkURL: localtest.BaseURL},
			Wrap:   func(next table.Table) table.Table { w.table.Table = next; return w.table },
		}, specs...)
		rt, err := runtime.New(runtime.Config{Specs: specs, Deps: w.Deps, Workers: 4})
		require.NoError(t, err)
		rt.Start(specs, true)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			rt.Stop(ctx)
		})
		test(t, w)
	})
}

// channel creates a channel that ends at a path of the receiver.
func (w *world) channel(kind, path string) string {
	w.t.Helper()
	config := map[string]string{
		"webhook":  `{"url": "` + w.web.URL + path + `", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}`,
		"chat":     `{"webhook_url": "` + w.web.URL + path + `"}`,
		"incident": `{"routing_key": "key", "url": "` + w.web.URL + path + `"}`,
	}[kind]
	return w.Do(w.t, w.A.Key, "POST", "/channels", object{"channel_type": kind, "name": path, "config_json": config}).
		Require(w.t, 201).String(w.t, "channel_id")
}

// rule creates a rule; more are further fields.
func (w *world) rule(trigger string, more object, channels ...string) string {
	w.t.Helper()
	body := object{"name": "of " + trigger, "trigger": trigger}
	for name, value := range more {
		body[name] = value
	}
	if len(channels) > 0 {
		body["channel_ids"] = channels
	}
	return w.Do(w.t, w.A.Key, "POST", "/alert-rules", body).Require(w.t, 201).String(w.t, "rule_id")
}

// flow registers a flow of one task. One of type http asks the path of the same
// name.
func (w *world) flow(name string, seconds, retries int) {
	w.t.Helper()
	task := object{"name": "load", "type": "http", "retries": retries, "config": object{"url": w.web.URL + "/" + name}}
	if seconds > 0 {
		task["type"], task["config"] = "wait", object{"seconds": seconds}
	}
	spec, err := json.Marshal(object{"tasks": []any{task}})
	require.NoError(w.t, err)
	require.NoError(w.t, fixture.Register(fixture.Owner(w.t.Context(), w.A.OrgID), w.Deps.Table, w.Deps.Blob, name, string(spec)))
}

// start starts a run of a flow and returns its id.
func (w *world) start(flow string) string {
	w.t.Helper()
	return w.Do(w.t, w.A.Key, "POST", "/runs", object{"flow_name": flow, "flow_version": "1"}).Require(w.t, 200).String(w.t, "run_id")
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	time.Sleep(d)
	synctest.Wait()
}

// last returns the last delivery of a channel.
func (w *world) last(channel string) any {
	w.t.Helper()
	return w.Do(w.t, w.A.Key, "GET", "/channels/"+channel, nil).Require(w.t, 200).Get(w.t, "last_delivery")
}
