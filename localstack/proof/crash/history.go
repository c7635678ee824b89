package crash

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"millrace/localstack/client"
	"millrace/shared/platform/clock"
)

// Limits of the load.
const (
	clients  = 6
	mostLive = 60 // concurrent runs
	think    = 30 * time.Millisecond
)

// History is work submitted to a service that keeps dying: its flows, requests
// and responses. It is drawn from a seed, except for timing.
type History struct {
	seed  uint64
	flows []*flow
	page  *page

	mu       sync.Mutex
	api      *client.Client // nil while there is none
	allowed  int            // submissions left for clients
	runs     map[string]*record
	keys     []keyed
	tags     int
	versions map[string]int // of the flow "grown": acknowledged registrations by version
	problems []string
	counts   map[string]int
}

// record is the state of an accepted run as clients have seen it.
type record struct {
	flow    *flow
	id, tag string
	parent  string
	partial bool   // a retry from failed
	stopped bool   // a cancel was acknowledged
	ended   string // the reported final status, "" if none
}

// keyed is a submission with an idempotency key.
type keyed struct {
	flow *flow
	key  string
	tag  string
	run  string // from the response; "" without one
}

// NewHistory draws a history. Close stops its servers.
func NewHistory(seed uint64) (*History, error) {
	p, err := newPage()
	if err != nil {
		return nil, err
	}
	return &History{
		seed: seed, flows: drawFlows(rand.New(rand.NewPCG(seed, 0))), page: p,
		runs: map[string]*record{}, versions: map[string]int{}, counts: map[string]int{},
	}, nil
}

// Close stops the servers that tasks call.
func (h *History) Close() { h.page.close() }

func (h *History) tell(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.problems) < 50 {
		h.problems = append(h.problems, fmt.Sprintf(format, args...))
	}
}

// Register registers the flows at a service that is not killed.
func (h *History) Register(ctx context.Context, api *client.Client) error {
	var code bytes.Buffer
	w := zip.NewWriter(&code)
	file, err := w.Create("flow.py")
	if err != nil {
		return err
	}
	fmt.Fprintf(file, source, h.page.port())
	if err := w.Close(); err != nil {
		return err
	}
	for _, f := range h.flows {
		spec := f.json(h.page.URL)
		if f.code() {
			_, err = api.Upload(ctx, client.Upload{FlowName: f.name, FlowVersion: "1", DeploymentName: f.name, Spec: spec, Zip: code.Bytes()})
		} else {
			err = api.Do(ctx, http.MethodPost, "/flows", map[string]any{"flow_name": f.name, "flow_version": "1", "flow_spec": spec}, nil)
		}
		if err != nil {
			return fmt.Errorf("register %s: %w", f.name, err)
		}
	}
	return nil
}

// Serve sets the service that clients call; nil means none at the moment.
func (h *History) Serve(api *client.Client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.api = api
}

// Allow permits n more submissions.
func (h *History) Allow(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.allowed += n
}

// Drive runs the clients until ctx ends.
func (h *History) Drive(ctx context.Context) {
	var wg sync.WaitGroup
	for i := range clients {
		rng := rand.New(rand.NewPCG(h.seed, uint64(i+1)))
		wg.Go(func() {
			for clock.Sleep(ctx, time.Duration(rng.Int64N(int64(think)))) == nil {
				h.mu.Lock()
				api := h.api
				h.mu.Unlock()
				if api != nil {
					h.act(ctx, api, rng)
				}
			}
		})
	}
	wg.Wait()
}

// act sends one request of a client.
func (h *History) act(ctx context.Context, api *client.Client, rng *rand.Rand) {
	switch draw := rng.IntN(20); {
	case draw < 9:
		if h.take() {
			h.submit(ctx, api, rng)
		}
	case draw < 11:
		h.cancel(ctx, api, rng)
	case draw < 13:
		h.retry(ctx, api, rng)
	case draw < 14:
		h.grow(ctx, api, rng)
	default:
		h.look(ctx, api, rng)
	}
}

// take reports whether another run may be submitted.
func (h *History) take() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	live := 0
	for _, r := range h.runs {
		if r.ended == "" {
			live++
		}
	}
	if h.allowed <= 0 || live >= mostLive {
		return false
	}
	h.allowed--
	return true
}

// answered records a response. It returns false if there was none. A server
// error is a problem: a dying service does not respond.
func (h *History) answered(what string, err error, expected ...int) bool {
	h.mu.Lock()
	h.counts[what]++
	h.mu.Unlock()
	if err == nil {
		return true
	}
	if refused := (*client.Error)(nil); errors.As(err, &refused) {
		if refused.Status >= 500 && refused.Status != http.StatusServiceUnavailable || refused.Status < 500 && !slices.Contains(expected, refused.Status) {
			h.tell("%s: %v", what, err)
		}
	}
	h.mu.Lock()
	h.counts[what+" failed"]++
	h.mu.Unlock()
	return false
}

// submit submits a run: often with an idempotency key, sometimes with one used
// before.
func (h *History) submit(ctx context.Context, api *client.Client, rng *rand.Rand) {
	h.mu.Lock()
	var use int
	if len(h.keys) > 0 && rng.IntN(4) == 0 {
		use = max(0, len(h.keys)-1-rng.IntN(40)) // one of the latest, with or without a response
	} else {
		h.tags++
		k := keyed{flow: h.flows[rng.IntN(len(h.flows))], tag: fmt.Sprint("tag", h.tags)}
		if rng.IntN(3) > 0 {
			k.key = fmt.Sprint("key", h.tags)
		}
		h.keys = append(h.keys, k)
		use = len(h.keys) - 1
	}
	k := h.keys[use]
	if k.key == "" {
		h.keys[use].run = "unknown" // it may be accepted without a response, but only once
	}
	h.mu.Unlock()
	if k.key == "" && k.run != "" {
		return
	}
	run, err := api.Start(ctx, client.RunRequest{
		FlowName: k.flow.name, FlowVersion: "1", Parameters: map[string]any{"tag": k.tag}, IdempotencyKey: k.key,
	})
	if !h.answered("submit", err, http.StatusConflict) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if k.key != "" {
		if was := h.keys[use].run; was != "" && was != run.RunID {
			h.problems = append(h.problems, fmt.Sprintf("the key %s was answered with %s and %s", k.key, was, run.RunID))
		}
		h.keys[use].run = run.RunID
	}
	if h.runs[run.RunID] == nil {
		h.runs[run.RunID] = &record{flow: k.flow, id: run.RunID, tag: k.tag}
	}
}

// draw draws one of the latest runs for which fit is true; nil if there is
// none.
func (h *History) draw(rng *rand.Rand, fit func(*record) bool) *record {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := slices.Sorted(maps.Keys(h.runs))
	var found []*record
	for _, id := range slices.Backward(ids) {
		if r := h.runs[id]; fit(r) {
			if found = append(found, r); len(found) == mostLive {
				break
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found[rng.IntN(len(found))]
}

func (h *History) cancel(ctx context.Context, api *client.Client, rng *rand.Rand) {
	h.mu.Lock()
	enough := h.counts["cancel"] > len(h.runs)/8
	h.mu.Unlock()
	r := h.draw(rng, func(r *record) bool { return r.ended == "" })
	if r == nil || enough {
		return
	}
	err := api.Do(ctx, http.MethodPost, "/runs/"+r.id+"/cancel", nil, nil)
	if h.answered("cancel", err, http.StatusBadRequest) {
		h.mu.Lock()
		defer h.mu.Unlock()
		r.stopped = true
	}
}

// retry retries a failed run, repaired, from its failed tasks or as a whole.
func (h *History) retry(ctx context.Context, api *client.Client, rng *rand.Rand) {
	r := h.draw(rng, func(r *record) bool { return r.ended == "FAILED" && r.parent == "" })
	if r == nil || !h.take() {
		return
	}
	h.page.repair(r.tag)
	partial := rng.IntN(4) > 0
	path := "/runs/" + r.id + "/retry"
	if partial {
		path += "-from-failed"
	}
	var run client.Run
	if !h.answered("retry", api.Do(ctx, http.MethodPost, path, nil, &run)) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs[run.RunID] = &record{flow: r.flow, id: run.RunID, tag: r.tag, parent: r.id, partial: partial}
}

// grow registers successive versions of one flow.
func (h *History) grow(ctx context.Context, api *client.Client, rng *rand.Rand) {
	version := fmt.Sprint(1 + rng.IntN(200))
	spec := map[string]any{"tasks": []map[string]any{{"name": "v" + version, "type": "transform", "config": map[string]any{"expression": version}}}}
	err := api.Do(ctx, http.MethodPost, "/flows", map[string]any{"flow_name": "grown", "flow_version": version, "flow_spec": spec}, nil)
	if h.answered("register", err) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.versions[version]++
	}
}

// look reads a run. A reported final state must not change.
func (h *History) look(ctx context.Context, api *client.Client, rng *rand.Rand) {
	r := h.draw(rng, func(r *record) bool { return r.ended == "" || rng.IntN(10) == 0 })
	if r == nil {
		return
	}
	h.mu.Lock()
	was := r.ended // before the request: another client may learn of the end meanwhile
	h.mu.Unlock()
	run, err := api.Run(ctx, r.id)
	if !h.answered("read", err) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case was != "" && was != run.Status:
		h.problems = append(h.problems, fmt.Sprintf("run %s was %s and is %s", r.id, was, run.Status))
	case run.Ended():
		r.ended = run.Status
	}
}

// Settle waits until every run has ended, including those without a response.
func (h *History) Settle(ctx context.Context, api *client.Client) error {
	for {
		var page struct {
			Items []client.Run `json:"items"`
		}
		if err := api.Do(ctx, http.MethodGet, "/runs", nil, &page); err != nil {
			return fmt.Errorf("list runs: %w", err)
		}
		left := ""
		h.mu.Lock()
		for _, run := range page.Items {
			if !run.Ended() {
				left += " " + run.RunID
			} else if r := h.runs[run.RunID]; r != nil {
				r.ended = run.Status
			}
		}
		h.mu.Unlock()
		if left == "" {
			return nil
		}
		if clock.Sleep(ctx, 200*time.Millisecond) != nil {
			return fmt.Errorf("runs are not over: %.300s: %w", left, ctx.Err())
		}
	}
}

// Requests returns the number of clients' requests by kind.
func (h *History) Requests() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.counts)
}
