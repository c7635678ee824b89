package synthetic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/telemetry"
	"millrace/shared/run/engine"
	"millrace/shared/web/fn"
)

const (
	patience  = 50 * time.Second // for the run's end; the function has a minute
	poll      = time.Second
	maxAnswer = 1 << 20 // bytes of a response
)

// Outcomes besides the statuses of runs that have ended.
const (
	unfinished = "UNFINISHED" // it had not ended after [patience]
	refused    = "REFUSED"    // a request failed
)

// Result is what became of the run.
type Result struct {
	Outcome    string `json:"outcome"` // a final status of the run, UNFINISHED or REFUSED
	RunID      string `json:"run_id,omitempty"`
	DurationMS int64  `json:"duration_ms"`
	Error      string `json:"error,omitempty"`
}

// service starts and watches runs.
type service struct {
	url     string
	key     func(ctx context.Context) (string, error)
	http    *http.Client
	clock   clock.Clock
	metrics *telemetry.Metrics
	log     *slog.Logger
}

func handler(d fn.Deps) fn.Handler {
	s := newService(d)
	return func(ctx context.Context, _ json.RawMessage) (any, error) { return s.try(ctx), nil }
}

func newService(d fn.Deps) *service {
	return &service{
		url: d.Config.LinkURL, key: d.Config.APIKey, clock: d.Clock, metrics: d.Metrics, log: d.Log,
		http: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

// try starts a run and waits for its end. What goes wrong is measured, and is no
// error of the function.
func (s *service) try(ctx context.Context) Result {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	begun := s.clock.Now()
	r, err := s.run(ctx)
	took := s.clock.Now().Sub(begun)
	r.DurationMS = took.Milliseconds()
	switch {
	case err == nil:
	case r.RunID != "" && errors.Is(err, context.DeadlineExceeded):
		r.Outcome, r.Error = unfinished, fmt.Sprintf("the run had not ended after %s", patience)
	default:
		r.Outcome, r.Error = refused, err.Error()
	}
	of := telemetry.Dimensions{Outcome: r.Outcome}
	s.metrics.Count(telemetry.SyntheticRuns, of)
	s.metrics.Time(telemetry.SyntheticDuration, of, took)
	if r.Outcome != string(engine.Succeeded) {
		s.log.ErrorContext(ctx, "synthetic run did not succeed", "outcome", r.Outcome, "run_id", r.RunID, "error", r.Error)
	}
	return r
}

// run starts a run and waits for its end, or for ctx's.
func (s *service) run(ctx context.Context) (Result, error) {
	key, err := s.key(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("no API key: %w", err)
	}
	var run struct {
		ID     string        `json:"run_id"`
		Status engine.Status `json:"status"`
		Error  string        `json:"error_message"`
	}
	if err := s.call(ctx, key, http.MethodPost, "/runs", `{"deployment": "`+Deployment+`"}`, &run); err != nil {
		return Result{}, err
	}
	for !run.Status.RunEnded() {
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return Result{RunID: run.ID}, ctx.Err()
		}
		if err := s.call(ctx, key, http.MethodGet, "/runs/"+run.ID, "", &run); err != nil {
			return Result{RunID: run.ID}, err
		}
	}
	return Result{RunID: run.ID, Outcome: string(run.Status), Error: run.Error}, nil
}

// call makes a request of the API. Its errors do not contain the key.
func (s *service) call(ctx context.Context, key, method, path, body string, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	res, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s answered %s: %.200s", method, path, res.Status, data)
	}
	return json.Unmarshal(data, out)
}
