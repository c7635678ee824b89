package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/ids"
	"millrace/shared/platform/keyring"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/sandbox/invoke"
	"millrace/shared/run/sandbox/ticket"
	"millrace/shared/run/worker"
)

// account stands in for Lambda in an account with a limit of concurrency:
// asynchronous events wait until fewer functions run, and some invocations are
// throttled.
type account struct {
	t     *testing.T
	world *world
	key   []byte
	limit int
	takes time.Duration // of a function
	cold  time.Duration // of its start
	slots chan struct{}
	all   sync.WaitGroup

	mu                     sync.Mutex
	requests, accepted     int
	running, most, refused int
	ended                  int
}

// RoundTrip answers an invocation. Every fifth is throttled.
func (a *account) RoundTrip(r *http.Request) (*http.Response, error) {
	payload, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	answer := func(status int, kind string) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{"X-Amzn-Errortype": {kind}}, Request: r, Body: http.NoBody}, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.requests++; a.requests%5 == 0 || a.requests < 30 {
		a.refused++
		return answer(http.StatusTooManyRequests, "TooManyRequestsException")
	}
	a.accepted++
	a.all.Go(func() { a.run(payload) })
	return answer(http.StatusAccepted, "")
}

// run is an event: it waits for its turn, and is then a runner.
func (a *account) run(payload []byte) {
	a.slots <- struct{}{}
	defer func() { <-a.slots }()
	a.count(1)
	defer a.count(-1)
	var event struct{ Token string }
	if !assert.NoError(a.t, json.Unmarshal(payload, &event)) {
		return
	}
	token, err := ticket.Check(context.Background(), keyring.Static(a.key), event.Token, time.Now())
	if !assert.NoError(a.t, err) {
		return
	}
	time.Sleep(a.cold)
	me := worker.Runner{Attempt: token, ID: ids.Token(9)}
	if _, err := a.world.c.Begin(a.world.ctx, me); err != nil {
		return // another runner has it
	}
	for left := a.takes; left > 0; left -= 2 * worker.Heartbeat {
		time.Sleep(min(left, 2*worker.Heartbeat))
		stop, err := a.world.c.Renew(a.world.ctx, me)
		assert.NoError(a.t, err)
		assert.False(a.t, stop)
	}
	answer := fmt.Sprintf(`{"output": 1, "output_bytes": 1, "task_secs": %g}`, a.takes.Seconds())
	assert.NoError(a.t, a.world.c.Complete(a.world.ctx, me, json.RawMessage(answer)))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended++
}

func (a *account) count(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running += n
	a.most = max(a.most, a.running)
}

// TestThrottleIsNoFailure maps a Python task of 30 s over twenty times as many
// elements as the account runs functions at once: none fails or spends a retry,
// each has one attempt, and the account's concurrency is used all the time.
func TestThrottleIsNoFailure(t *testing.T) {
	t.Parallel()
	const limit, rounds, takes = 100, 20, 30 * time.Second
	synctest.Test(t, func(t *testing.T) {
		a := &account{t: t, key: bytes.Repeat([]byte{1}, ticket.MinKey), limit: limit, takes: takes, cold: time.Second, slots: make(chan struct{}, limit)}
		box, err := invoke.New(invoke.Config{Prefix: "sandbox-", Keys: keyring.Static(a.key), AWS: func(context.Context) (aws.Config, error) {
			return aws.Config{
				Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""), HTTPClient: &http.Client{Transport: a},
			}, nil
		}})
		require.NoError(t, err)
		w := still(t)
		a.world = w
		w.boot = "boot2"
		w.load(slog.New(slog.DiscardHandler))
		w.c = w.hand("boot2").Worker // of several processes, as the functions of a cloud are
		w.c.Executors["python"] = executor.Python{Sandbox: box, Blob: w.blob}
		w.serve()
		w.ticking()
		w.register("f", with(spec("each"), map[string]map[string]any{
			"each": {"entrypoint": "flow:main", "map_over": fmt.Sprintf("lists.range(%d)", limit*rounds), "timeout_secs": 60},
		}))
		began := time.Now()
		id := w.run("f").ID
		run := w.ends(id, 2*rounds*takes)
		took := run.EndedAt.Time().Sub(began)
		t.Logf("%d tasks of %s at a concurrency of %d: all done in %s, %.2f of the ideal; %d invocations, %d throttled",
			limit*rounds, takes, limit, took, took.Seconds()/(rounds*takes).Seconds(), a.requests, a.refused)
		a.all.Wait() // second events of attempts that have ended
		assert.Equal(t, engine.Succeeded, run.Status)
		assert.LessOrEqual(t, took, rounds*takes*12/10)
		assert.Equal(t, limit, a.most)
		assert.Equal(t, limit*rounds, a.ended, "each ran once")
		assert.Positive(t, a.refused)
		for name, item := range w.nodes(id) {
			if name == "each" {
				continue
			}
			assert.Equal(t, engine.Succeeded, item.Status, name)
			assert.Equal(t, 1, item.Attempt, name)
			assert.Zero(t, item.Lost, name)
			assert.Empty(t, item.History, name)
		}
	})
}
