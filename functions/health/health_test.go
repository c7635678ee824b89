package health_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/functions/health"
	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// fakeTable, fakeBlob and fakeQueues are fakes with configurable checks.
type (
	fakeTable struct {
		table.Table
		check func(context.Context) error
	}
	fakeBlob struct {
		blob.Store
		check func(context.Context) error
	}
	fakeQueues struct {
		queue.Queues
		stats func(string) (queue.Stats, error)
		dead  int // in each dead-letter queue
	}
)

func (f fakeTable) Check(ctx context.Context) error { return f.check(ctx) }
func (f fakeBlob) Check(ctx context.Context) error  { return f.check(ctx) }
func (f fakeQueues) Stats(_ context.Context, name string) (queue.Stats, error) {
	return f.stats(name)
}

func (f fakeQueues) Depth(_ context.Context, name string) (int, error) {
	if !strings.HasSuffix(name, "-dead") {
		return 0, fmt.Errorf("%s is no dead-letter queue", name)
	}
	return f.dead, nil
}

func answers(err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

func queuesAnswer(err error) fakeQueues {
	return fakeQueues{stats: func(string) (queue.Stats, error) { return queue.Stats{}, err }}
}

type report struct {
	Status, Version, Timestamp string
	Components                 []struct{ Name, Status, Message string }
}

const secret = "the operator's secret"

// ask serves GET /health with these dependencies, for the operator.
func ask(t *testing.T, d fn.Deps) (report, string) {
	t.Helper()
	return askAs(t, d, "Bearer "+secret)
}

func askAs(t *testing.T, d fn.Deps, authorization string) (report, string) {
	t.Helper()
	d.Config.Operator = secret
	d.Clock, d.Log = clock.System{}, slog.New(slog.DiscardHandler)
	api := httpapi.New(httpapi.Config{Title: "Millrace", Version: "test", Log: d.Log})
	health.Spec.Routes(api, d)
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/health", nil)
	r.Header.Set("Authorization", authorization)
	api.Handler().ServeHTTP(w, r)
	require.Equal(t, 200, w.Code, "%s", w.Body)
	var out report
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &out))
	return out, w.Body.String()
}

func TestRealComponents(t *testing.T) {
	env := localtest.Open(t, localtest.Options{Config: fn.Config{Version: "1.2.3"}}, health.Spec)
	res := env.Do(t, "", "GET", "/health", nil).Require(t, 200)
	assert.Equal(t, "healthy", res.String(t, "status"), "%s", res.Body)
	assert.Equal(t, "1.2.3", res.String(t, "version"))
	at, err := time.Parse("2006-01-02T15:04:05.000Z", res.String(t, "timestamp"))
	require.NoError(t, err)
	assert.WithinDuration(t, env.Clock.Now(), at, time.Minute)
	for i, name := range []string{"key_value_table", "object_store", "message_queue"} {
		assert.Equal(t, name, res.String(t, "components", i, "name"))
		assert.Equal(t, "healthy", res.String(t, "components", i, "status"))
	}
	assert.Equal(t, "operational", res.String(t, "components", 2, "message"))

	require.NoError(t, env.Deps.Queues.Send(t.Context(), events.Tasks("small"), queue.Message{Body: []byte("{}"), Group: env.A.OrgID}))
	env.Clock.Advance(42 * time.Second)
	res = env.Do(t, "", "GET", "/health", nil).Require(t, 200)
	assert.Equal(t, "operational", res.String(t, "components", 2, "message"), "what waits is the workspaces' business")
	d := env.Deps
	r, _ := ask(t, d)
	assert.Equal(t, "operational; tasks waiting: 1, the oldest for 42s", r.Components[2].Message)
}

// TestBacklogIsOnlyForOperator: all others learn only which component works.
func TestBacklogIsOnlyForOperator(t *testing.T) {
	t.Parallel()
	d := fn.Deps{Queues: fakeQueues{dead: 3, stats: func(string) (queue.Stats, error) { return queue.Stats{Visible: 2, Oldest: time.Minute}, nil }}}
	for _, authorization := range []string{"", "Bearer ", "Bearer x", secret, "Bearer " + secret + "x", "Basic " + secret} {
		r, body := askAs(t, d, authorization)
		assert.Equal(t, "operational", r.Components[2].Message, authorization)
		assert.NotContains(t, body, "waiting")
	}
	r, _ := ask(t, d)
	assert.Equal(t, "operational; tasks waiting: 12, the oldest for 1m0s; messages given up (dead letters): 21", r.Components[2].Message)
}

// TestFullDiskIsUnhealthy, with the reason, for all callers.
func TestFullDiskIsUnhealthy(t *testing.T) {
	t.Parallel()
	full := fmt.Errorf("check: %w", errs.New(errs.Unavailable, "the disk is nearly full: writes are refused"))
	r, _ := askAs(t, fn.Deps{Table: fakeTable{check: answers(full)}, Blob: fakeBlob{check: answers(full)}}, "")
	assert.Equal(t, "unhealthy", r.Status)
	for _, c := range r.Components[:2] {
		assert.Equal(t, "unhealthy", c.Status)
		assert.Equal(t, "the disk is nearly full: writes are refused", c.Message)
	}
}

func TestCredentialIsIgnored(t *testing.T) {
	t.Parallel()
	r, _ := ask(t, fn.Deps{})
	assert.Equal(t, "degraded", r.Status)
	for _, c := range r.Components {
		assert.Equal(t, "degraded", c.Status)
		assert.Equal(t, "not configured", c.Message)
	}
	assert.Equal(t, "dev", r.Version)
}

func TestWorstComponentDecides(t *testing.T) {
	t.Parallel()
	boom := errors.New("dial tcp 10.1.2.3: secret-endpoint")
	states := []struct {
		err    error
		status string
	}{{nil, "healthy"}, {errNotConfigured, "degraded"}, {boom, "unhealthy"}}
	for i, tbl := range states {
		for j, blb := range states {
			for k, que := range states {
				r, body := ask(t, fn.Deps{
					Table:  fakeTable{check: answers(as(tbl.err, table.ErrNotConfigured))},
					Blob:   fakeBlob{check: answers(as(blb.err, blob.ErrNotConfigured))},
					Queues: queuesAnswer(as(que.err, queue.ErrNotConfigured)),
				})
				assert.Equal(t, states[max(i, j, k)].status, r.Status)
				require.Len(t, r.Components, 3)
				assert.Equal(t, []string{tbl.status, blb.status, que.status},
					[]string{r.Components[0].Status, r.Components[1].Status, r.Components[2].Status})
				assert.NotContains(t, body, "secret-endpoint")
			}
		}
	}
}

var errNotConfigured = errors.New("stands for the port's own")

// as returns a component's own error for not configured, wrapped as drivers do.
func as(err, own error) error {
	if errors.Is(err, errNotConfigured) {
		return fmt.Errorf("check: %w", own)
	}
	return err
}

func TestOneFailingQueueIsReported(t *testing.T) {
	t.Parallel()
	for _, name := range events.AllQueues() {
		for err, want := range map[error]string{errors.New("boom"): "unhealthy", queue.ErrUnknownQueue: "degraded"} {
			r, _ := ask(t, fn.Deps{Queues: fakeQueues{stats: func(asked string) (queue.Stats, error) {
				if asked == name {
					return queue.Stats{}, err
				}
				return queue.Stats{Visible: 1}, nil
			}}})
			assert.Equal(t, want, r.Components[2].Status, name)
		}
	}
	// A failing queue outweighs one that is not configured.
	r, _ := ask(t, fn.Deps{Queues: fakeQueues{stats: func(asked string) (queue.Stats, error) {
		if strings.HasSuffix(asked, "xlarge") {
			return queue.Stats{}, errors.New("boom")
		}
		if asked == events.Runs {
			return queue.Stats{}, nil
		}
		return queue.Stats{}, queue.ErrUnknownQueue
	}}})
	assert.Equal(t, "unhealthy", r.Components[2].Status)
	// An unknown age is omitted.
	r, _ = ask(t, fn.Deps{Queues: fakeQueues{stats: func(string) (queue.Stats, error) { return queue.Stats{Visible: 2}, nil }}})
	assert.Equal(t, "operational; tasks waiting: 12", r.Components[2].Message)
	r, _ = ask(t, fn.Deps{Queues: fakeQueues{dead: 3, stats: func(string) (queue.Stats, error) { return queue.Stats{}, nil }}})
	assert.Equal(t, "operational; no task is waiting; messages given up (dead letters): 21", r.Components[2].Message)
	assert.Equal(t, "healthy", r.Components[2].Status)
}

func TestHangingComponentTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		begin := time.Now()
		r, _ := ask(t, fn.Deps{
			Table: fakeTable{check: func(context.Context) error { <-hang; return nil }}, // ignores its context
			Blob:  fakeBlob{check: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
			Queues: fakeQueues{stats: func(string) (queue.Stats, error) {
				time.Sleep(3 * time.Second) // of the bubble's time
				return queue.Stats{}, nil
			}},
		})
		assert.Equal(t, 2*time.Second, time.Since(begin), "asked at once, given up after two seconds")
		assert.Equal(t, "unhealthy", r.Status)
		for _, c := range r.Components {
			assert.Equal(t, "unhealthy", c.Status)
			assert.Equal(t, "no answer within 2s", c.Message)
		}
		close(hang)
		time.Sleep(time.Second) // of the bubble's time: lets the queues finish
	})
}
