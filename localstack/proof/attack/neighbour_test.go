package attack

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
	"millrace/shared/platform/ids"
)

// neighbour is a workspace that keeps working while others attack the server.
type neighbour struct {
	api *client.Client
	key string
}

// The neighbour's requests per second. Each starts on time, however long the
// previous one takes.
const (
	requestsPerSecond = 100
	runsPerSecond     = 20
	pythonPerSecond   = 5
)

// patience is how long the neighbour waits for a response.
const patience = time.Minute

func newNeighbour(t *testing.T, s *service) *neighbour {
	t.Helper()
	n := &neighbour{key: s.workspace(t, "neighbour@example.com").Token}
	n.api = n.client(s.Credentials.BaseURL)
	require.NoError(t, register(t.Context(), n.api, "one", transform("one", "1")))
	require.NoError(t, upload(t.Context(), n.api, "code", "def one():\n    return 1\n", python("one")))
	return n
}

// client returns a client with its own connections.
func (n *neighbour) client(base string) *client.Client {
	return &client.Client{BaseURL: base, Token: n.key, HTTP: &http.Client{
		Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 64},
	}}
}

// figures are the durations of requests and runs.
type figures struct {
	request, run, python quantiles
	failures             []string
}

// all returns the columns of the report.
func (f *figures) all() []quantiles { return []quantiles{f.request, f.run, f.python} }

// held is a figure with its upper limit.
type held struct {
	quantiles
	most time.Duration
}

// limited returns the figures with limits.
func (f *figures) limited() iter.Seq2[string, held] {
	return maps.All(map[string]held{
		"requests": {f.request, mostRequest}, "runs": {f.run, mostRun}, "Python runs": {f.python, mostRun},
	})
}

// quantiles summarize durations.
type quantiles struct {
	count         int
	p50, p95, p99 time.Duration
}

func quantilesOf(samples []time.Duration) quantiles {
	if len(samples) == 0 {
		return quantiles{}
	}
	slices.Sort(samples)
	at := func(percent int) time.Duration { return samples[min(len(samples)*percent/100, len(samples)-1)] }
	return quantiles{len(samples), at(50), at(95), at(99)}
}

// String returns milliseconds.
func (q quantiles) String() string {
	if q.count == 0 {
		return "-"
	}
	ms := func(d time.Duration) string { return fmt.Sprintf("%.3g", float64(d)/float64(time.Millisecond)) }
	return ms(q.p50) + "/" + ms(q.p95) + "/" + ms(q.p99)
}

// series collects durations from many goroutines.
type series struct {
	mu       sync.Mutex
	samples  []time.Duration
	failures []string
}

// measure makes the neighbour send requests and runs during the attack, and
// waits for their ends.
func (n *neighbour) measure(ctx context.Context, attack func(context.Context)) figures {
	var request, run, python series
	ongoing, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	every := func(perSecond int, s *series, do func(context.Context, int) error) {
		all.Go(func() { s.collect(ctx, ongoing.Done(), time.Second/time.Duration(perSecond), do) })
	}
	every(requestsPerSecond, &request, func(ctx context.Context, i int) error {
		path := "/me"
		if i%2 == 1 {
			path = "/runs?limit=20"
		}
		return n.api.Do(ctx, http.MethodGet, path, nil, nil)
	})
	every(runsPerSecond, &run, func(ctx context.Context, _ int) error {
		return n.one(ctx, client.RunRequest{FlowName: "one", FlowVersion: "1"})
	})
	every(pythonPerSecond, &python, func(ctx context.Context, _ int) error {
		return n.one(ctx, client.RunRequest{Deployment: "code"})
	})
	attack(ctx)
	stop()
	all.Wait()
	return figures{
		quantilesOf(request.samples), quantilesOf(run.samples), quantilesOf(python.samples),
		slices.Concat(request.failures, run.failures, python.failures),
	}
}

// collect repeats do until done. Calls that are not finished two seconds later
// count with the time they have taken so far.
func (s *series) collect(ctx context.Context, done <-chan struct{}, every time.Duration, do func(context.Context, int) error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for i := 0; ; i++ {
		all.Go(func() {
			began := time.Now()
			err := do(ctx, i)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.samples = append(s.samples, time.Since(began))
			if err != nil && ctx.Err() == nil && len(s.failures) < 5 {
				s.failures = append(s.failures, fmt.Sprintf("the neighbour, after %s: %.300s", time.Since(began).Round(time.Millisecond), err))
			}
		})
		select {
		case <-ticker.C:
			continue
		case <-done:
		}
		late := time.AfterFunc(2*mostRun, cancel)
		defer late.Stop()
		all.Wait()
		return
	}
}

// one runs a flow of one task to its end. The idempotency key permits a retry
// if the connection was closed.
func (n *neighbour) one(ctx context.Context, in client.RunRequest) error {
	in.Execute, in.IdempotencyKey = true, ids.Token(12)
	run, err := n.api.Start(ctx, in)
	if err == nil && run.Status != "SUCCEEDED" {
		err = fmt.Errorf("the run %s is %s: %s", run.RunID, run.Status, cmp.Or(run.ErrorMessage, "no reason"))
	}
	return err
}
