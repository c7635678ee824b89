package bench

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"millrace/localstack/client"
	"millrace/shared/platform/clock"
)

// Time budgets, on two idle cores.
const (
	sequenceTime = 5 * time.Millisecond
	pythonTime   = 20 * time.Millisecond
	parallelTime = 15 * time.Millisecond
	startMedian  = 600 * time.Microsecond
	startP95     = 1200 * time.Microsecond
)

const (
	sequenceRow = "40 trivial tasks in sequence"
	pythonRow   = "40 Python tasks in sequence, warm"
	parallelRow = "100 parallel trivial tasks and a join"
	startRow    = "submit to first task start"
	callRow     = "submit to its call"
	floorRow    = "a request with nothing to do"
)

func latencyGroups() []group {
	return []group{
		{[]string{sequenceRow}, sequence},
		{[]string{pythonRow}, python},
		{[]string{parallelRow}, parallels},
		{afterAll(startRow, callRow, floorRow), eachRest(firstStart)},
		{afterAll(resultRow), eachRest(results)},
		{afterAll(memoryRow), caches},
	}
}

// afterAll returns the names of rows that are measured after each of the pauses.
func afterAll(names ...string) (rows []string) {
	for _, rest := range rests {
		for _, name := range names {
			rows = append(rows, rested(name, rest))
		}
	}
	return rows
}

// eachRest measures with each of the pauses.
func eachRest(run func(context.Context, *bench, time.Duration) error) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		for _, rest := range rests {
			if err := run(ctx, b, rest); err != nil {
				return err
			}
		}
		return nil
	}
}

func sequence(ctx context.Context, b *bench) error {
	return b.latency(ctx, sequenceRow, chain(40), chainWork(40), 100, sequenceTime)
}

func parallels(ctx context.Context, b *bench) error {
	return b.latency(ctx, parallelRow, parallel(100), parallelWork(100), 100, parallelTime)
}

// latency times n runs of a flow, one after the other.
func (b *bench) latency(ctx context.Context, name string, f flow, work string, n int, budget time.Duration) error {
	return b.with(ctx, func(s *server) error {
		if err := s.register(ctx, f); err != nil {
			return err
		}
		times, bytes, err := s.sample(ctx, f.execute(), n/2, n)
		if err != nil {
			return err
		}
		r := timed(name, times).of(b.count(acceptWork), b.count(work))
		r.bytes = bytes
		b.show(r.in(span(budget), times.median() <= budget))
		return nil
	})
}

// code is a module with an empty task.
const code = "def step(ctx):\n    return 1\n"

func python(ctx context.Context, b *bench) error {
	f := chain(40)
	for i := range f.Spec.Tasks {
		f.Spec.Tasks[i].Type, f.Spec.Tasks[i].Entrypoint, f.Spec.Tasks[i].Config = "python", "tasks:step", nil
	}
	spec, err := json.Marshal(f.Spec)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	file, err := w.Create("tasks.py")
	if err != nil {
		return err
	}
	if _, err := file.Write([]byte(code)); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	var flags []string
	if b.Python != "" {
		flags = []string{"--python", b.Python}
	}
	return b.with(ctx, func(s *server) error {
		_, err := s.Client().Upload(ctx, client.Upload{FlowName: f.Name, FlowVersion: f.Version, DeploymentName: f.Name, Spec: spec, Zip: archive.Bytes()})
		if err != nil {
			return err
		}
		times, bytes, err := s.sample(ctx, f.execute(), 20, 50)
		if err != nil {
			return err
		}
		r := timed(pythonRow, times).of(b.count(acceptWork), b.count(chainWork(40)))
		r.bytes = bytes
		b.show(r.in(span(pythonTime), times.median() <= pythonTime))
		return nil
	}, flags...)
}

// firstStart measures the time from before the request that submits a run until
// the server logs the start of the first attempt, and until the attempt's call
// reaches the page. The duration of a trivial request shows the machine's share
// of it. rest is the pause before each.
func firstStart(ctx context.Context, b *bench, rest time.Duration) error {
	called := make(chan time.Time, 1)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	page := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		called <- time.Now()
	})}
	go func() { _ = page.Serve(listener) }() // ends with Close
	defer func() { _ = page.Close() }()      // no more calls are expected
	f := newFlow("calls", task{Name: "call", Type: "http", Config: map[string]any{"url": "http://" + listener.Addr().String()}})
	body, err := json.Marshal(f.run())
	if err != nil {
		return err
	}
	var calls, floor samples
	var log *output
	submitted := map[string]time.Time{}
	if err := b.with(ctx, func(s *server) error {
		log = s.log
		if err := s.register(ctx, f); err != nil {
			return err
		}
		const warm, n = 30, 200
		for i := range warm + n {
			if err := clock.Sleep(ctx, rest); err != nil {
				return err
			}
			begin := time.Now()
			answer, _, err := s.call(ctx, http.MethodPost, "/runs", body)
			if err != nil {
				return err
			}
			select {
			case at := <-called:
				if i >= warm {
					calls = append(calls, at.Sub(begin))
				}
			case <-time.After(10 * time.Second):
				return fmt.Errorf("the task did not start within 10 s\n%s", s.log)
			}
			var run struct {
				ID string `json:"run_id"`
			}
			if err := json.Unmarshal(answer, &run); err != nil {
				return err
			}
			if err := clock.Sleep(ctx, rest); err != nil {
				return err
			}
			_, nothing, err := s.callAs(ctx, s.Credentials.LocalSecret, http.MethodGet, "/_local/metrics", nil)
			if err != nil {
				return err
			}
			if i >= warm {
				submitted[run.ID] = begin
				floor = append(floor, nothing)
			}
		}
		return nil
	}, "--allow-loopback", "--log-level", "debug", "--log-format", "json"); err != nil {
		return err
	}
	starts, err := begun(log.String(), submitted)
	if err != nil {
		return err
	}
	met := starts.median() <= startMedian && starts.at(0.95)[0] <= startP95
	b.show(timed(rested(startRow, rest), starts).in(span(startMedian)+", p95 "+span(startP95), met))
	b.show(timed(rested(callRow, rest), calls))
	b.show(timed(rested(floorRow, rest), floor))
	return nil
}

// begun reads from a server's log the delays between the submissions and first
// attempts of runs.
func begun(log string, submitted map[string]time.Time) (samples, error) {
	var out samples
	for line := range strings.Lines(log) {
		if line[0] != '{' {
			continue // other log lines
		}
		var entry struct {
			Time    time.Time `json:"time"`
			Message string    `json:"msg"`
			Run     string    `json:"run_id"`
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			return nil, fmt.Errorf("read the server's log: %w", err)
		}
		if at, ours := submitted[entry.Run]; ours && entry.Message == "attempt begins" {
			out = append(out, entry.Time.Sub(at))
		}
	}
	if len(out) != len(submitted) {
		return nil, fmt.Errorf("%d runs have %d attempts in the log", len(submitted), len(out))
	}
	return out, nil
}
