// Package otlp exports spans to an OpenTelemetry collector: OTLP over HTTP in
// its JSON form. OpenTelemetry's own SDK with this exporter adds 5.8 MB and
// gRPC to the program of every function, which would use little of it: the
// spans' ids come from the service's stored trace contexts, and what is
// exported has ended already.
package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"millrace/shared/platform/telemetry"
)

// The variables that configure the exporter, as OpenTelemetry defines them.
const (
	EnvEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT" // base URL of the collector; empty: nothing is exported
	EnvHeaders  = "OTEL_EXPORTER_OTLP_HEADERS"  // key=value of request headers, URL-encoded, comma-separated
)

// Config configures an Exporter.
type Config struct {
	URL     string // that spans are posted to; empty: none are exported
	Headers http.Header
}

// ReadConfig reads the variables. Errors do not contain their values.
func ReadConfig(getenv func(string) string) (Config, error) {
	var c Config
	base := getenv(EnvEndpoint)
	if base == "" {
		return c, nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return c, fmt.Errorf("%s is no http or https URL", EnvEndpoint)
	}
	c.URL, c.Headers = u.JoinPath("v1", "traces").String(), http.Header{}
	for pair := range strings.SplitSeq(getenv(EnvHeaders), ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, text, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(text))
		if key = strings.TrimSpace(key); !ok || err != nil || key == "" || strings.ContainsAny(key+value, "\r\n\x00") {
			return Config{}, fmt.Errorf("%s is not key=value, comma-separated", EnvHeaders)
		}
		c.Headers.Add(key, value)
	}
	return c, nil
}

// Exporter posts spans to a collector.
type Exporter struct {
	Spans *telemetry.Spans // to be exported

	cfg      Config
	resource []slog.Attr
	log      *slog.Logger
	client   *http.Client

	mu   sync.Mutex // one export at a time; guards what follows
	lost int        // spans that were not exported since the last line in the log
	told time.Time

	state atomic.Pointer[State]
}

// State is what an Exporter has done so far.
type State struct {
	Collector string    `json:"collector"` // scheme and host
	Exported  int       `json:"exported"`  // spans
	Lost      int       `json:"lost"`      // spans
	Error     string    `json:"error,omitempty"`
	FailedAt  time.Time `json:"failed_at,omitzero"` // of the error
	// Failing means that the last export failed.
	Failing bool `json:"failing"`
}

// State returns what was exported so far, nil for a nil Exporter.
func (e *Exporter) State() *State {
	if e == nil {
		return nil
	}
	return e.state.Load()
}

// note adds the result of an export to the state. The caller holds mu.
func (e *Exporter) note(spans, dropped int, err error) {
	now := *e.state.Load()
	now.Lost += dropped
	switch {
	case err != nil:
		now.Lost += spans
		now.Error, now.FailedAt, now.Failing = err.Error(), time.Now(), true
	case spans > 0:
		now.Exported += spans
		now.Failing = false
	}
	e.state.Store(&now)
}

// Patience is how long an export may take.
const Patience = 2 * time.Second

// tellEvery is the least time between two lines about spans that were lost.
const tellEvery = time.Minute

// New returns an exporter whose spans are of a service with these attributes,
// in OpenTelemetry's names: service.name, service.version. It returns nil if
// nothing is to be exported.
func New(cfg Config, log *slog.Logger, resource ...slog.Attr) *Exporter {
	if cfg.URL == "" {
		return nil
	}
	e := &Exporter{
		Spans: &telemetry.Spans{}, cfg: cfg, resource: resource, log: log,
		client: &http.Client{Timeout: Patience, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // it would get the headers
		}},
	}
	state := State{}
	if u, err := url.Parse(cfg.URL); err == nil { // user and path may contain a credential
		state.Collector = (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
	}
	e.state.Store(&state)
	return e
}

// Collector returns the exporter's spans, nil for a nil Exporter.
func (e *Exporter) Collector() *telemetry.Spans {
	if e == nil {
		return nil
	}
	return e.Spans
}

// Flush exports the spans that wait. Spans that cannot be exported are lost:
// the log says so, at most once a minute.
func (e *Exporter) Flush(ctx context.Context) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	spans, dropped := e.Spans.Take()
	e.lost += dropped
	var err error
	if len(spans) > 0 {
		if err = e.post(ctx, spans); err != nil {
			e.lost += len(spans)
		}
	}
	e.note(len(spans), dropped, err)
	if now := time.Now(); e.lost > 0 && now.Sub(e.told) >= tellEvery {
		e.log.WarnContext(ctx, "spans were not exported", "lost", e.lost, "error", err)
		e.lost, e.told = 0, now
	}
}

// Run flushes every second until ctx ends, and then once more.
func (e *Exporter) Run(ctx context.Context) {
	if e == nil {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			e.Flush(ctx)
		case <-ctx.Done():
			e.Flush(context.WithoutCancel(ctx))
			return
		}
	}
}

func (e *Exporter) post(ctx context.Context, spans []telemetry.Span) error {
	body, err := json.Marshal(encode(e.resource, spans))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = e.cfg.Headers.Clone()
	req.Header.Set("Content-Type", "application/json")
	res, err := e.client.Do(req)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // the URL may contain a credential
		}
		return err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection is used again
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("the collector answered %d", res.StatusCode)
	}
	return nil
}
