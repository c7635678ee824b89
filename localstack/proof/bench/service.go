package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"

	"millrace/functions/catalog"
	"millrace/functions/schedulertick"
	"millrace/functions/taskworker"
	"millrace/localstack/embedded/localbus"
	"millrace/localstack/embedded/pebblequeue"
	"millrace/localstack/embedded/pebbletable"
	"millrace/localstack/embedded/store"
	"millrace/localstack/proof/meter"
	"millrace/shared/account/identity"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/keyring"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/platform/telemetry"
	"millrace/shared/run/runlog"
	"millrace/shared/web/fn"
)

// service is the whole service in this process, with all requests to its
// platform counted. Requests go through the real router. Messages are handled
// one after the other, as by one warm function, so that the counts are
// reproducible.
type service struct {
	meter    meter.Meter
	api      http.Handler
	key      string // API key with full access
	queues   queue.Queues
	handlers []handler
	tick     fn.Handler  // the scheduler's
	table    table.Table // its requests are not counted
	org      string      // the workspace made in it
	logs     *runlog.Store
	store    *store.DB // in memory
	objects  blob.Store

	// Of Python tasks, see python.go.
	lambda  sandboxes
	lines   logged             // of functions
	metrics *telemetry.Metrics // written with the lines
	posts   int                // requests of sandboxes
	begun   int                // sandboxes
}

type handler struct {
	queue  string
	handle fn.MessageHandler
}

// still is a constant clock, for items of constant size and no time-outs.
var still = clock.Func(func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC) })

// platform is what a service runs on.
type platform struct {
	table   table.Table // nil: in memory, with a new workspace
	objects blob.Store
	key     string // API key of a workspace in the table
	log     *slog.Logger
	delay   *delay // of each request to table and queues; nil: none
}

func openService(ctx context.Context, p platform) (*service, error) {
	s := &service{key: p.key}
	var err error
	if s.store, err = store.OpenMemory(); err != nil {
		return nil, err
	}
	if err := s.open(ctx, p); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// close closes the in-memory store.
func (s *service) close() error { return s.store.Close() }

func (s *service) open(ctx context.Context, p platform) error {
	var now clock.Clock = clock.System{}
	log := cmp.Or(p.log, telemetry.NewLogger(&s.lines, telemetry.JSON, slog.LevelInfo))
	s.metrics = telemetry.NewMetrics("Millrace", &s.lines)
	if p.table == nil {
		now = still
		p.table = pebbletable.New(s.store, now)
		made, err := identity.Bootstrap(ctx, p.table, now.Now(), "Bench", "owner@bench.test", identity.Credentials{})
		if err != nil {
			return fmt.Errorf("make a workspace: %w", err)
		}
		s.key, s.org = made.APIKey, made.OrgID
	}
	s.table, s.objects = p.table, p.objects
	specs := catalog.All()
	queues, err := pebblequeue.New(ctx, s.store, now, catalog.Queues(specs))
	if err != nil {
		return err
	}
	s.queues = s.meter.Queues(p.delay.queues(queues))
	// As for a deployed function: other processes may work on the same runs, and
	// nothing waits in memory between messages.
	deps := fn.Deps{
		Table: s.meter.Table(p.delay.table(p.table)), Queues: s.queues, Blob: s.meter.Objects(p.objects), Clock: now, Log: log,
		Bus:     s.meter.Bus(localbus.New(s.queues, nil)),
		Config:  fn.Config{Version: "bench", ProcessID: ids.Token(6), AttemptKeys: keyring.Static(attemptKey)},
		Metrics: s.metrics,
	}
	if deps.Sandbox, err = s.lambda.driver(); err != nil {
		return err
	}
	// Logs wait for the end of their run even on the slowest machine.
	deps.Logs = &runlog.Store{Table: deps.Table, Blob: deps.Blob, Clock: now, Log: log, FlushInterval: time.Hour}
	service, err := catalog.Assemble(specs, deps, catalog.Settings{
		CursorKeys: keyring.Static([]byte(ids.Token(32))), Traces: deps.Blob, Chance: func(int64) int64 { return 0 },
	})
	if err != nil {
		return err
	}
	s.logs = service.Deps.Logs
	if tick, found := catalog.Find(specs, schedulertick.Spec.Name); found {
		s.tick = tick.Handle(service.Deps)
	}
	for name, handle := range service.Messages() {
		s.handlers = append(s.handlers, handler{name, handle})
	}
	slices.SortFunc(s.handlers, func(a, b handler) int { return cmp.Compare(a.queue, b.queue) })
	s.api = service.API().Handler()
	return nil
}

// call sends a request through the router and returns the body of a 200
// response.
func (s *service) call(ctx context.Context, method, path string, body any, header ...string) ([]byte, error) {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://bench.test"+path, content)
	if err != nil {
		return nil, err
	}
	req.RemoteAddr = "127.0.0.1:1"
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+s.key)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := &answer{header: http.Header{}, status: http.StatusOK}
	s.api.ServeHTTP(w, req)
	if w.status != http.StatusOK {
		return nil, fmt.Errorf("%s %s answered %d: %s", method, path, w.status, w.body.Bytes())
	}
	return w.body.Bytes(), nil
}

// answer records the response of a handler.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

// Flush implements http.Flusher, for streamed responses.
func (a *answer) Flush() {}

// register registers a flow without code.
func (s *service) register(ctx context.Context, f flow) error {
	_, err := s.call(ctx, http.MethodPost, "/flows", f)
	return err
}

// accept starts a run and returns its id.
func (s *service) accept(ctx context.Context, f flow, header ...string) (string, error) {
	data, err := s.call(ctx, http.MethodPost, "/runs", f.run(), header...)
	if err != nil {
		return "", err
	}
	var run struct {
		ID string `json:"run_id"`
	}
	return run.ID, json.Unmarshal(data, &run)
}

// work handles messages until none is left, in batches as from Lambda.
func (s *service) work(ctx context.Context) error {
	for busy := true; busy; {
		busy = false
		for _, h := range s.handlers {
			got, err := s.queues.Receive(ctx, h.queue, queue.MaxBatch, 0)
			if err != nil {
				return err
			}
			if len(got) == 0 {
				continue
			}
			busy = true
			if err := s.handle(ctx, h, got); err != nil {
				return err
			}
		}
	}
	return nil
}

// handle handles messages one after the other.
func (s *service) handle(ctx context.Context, h handler, got []queue.Delivery) error {
	ctx = s.invocation(ctx, taskworker.Spec.Name)
	defer func() { _ = s.told(ctx) }() // never fails
	receipts := make([]string, len(got))
	for i, m := range got {
		if err := h.invoke(ctx, m); err != nil {
			return err
		}
		receipts[i] = m.Receipt
	}
	return s.queues.Delete(ctx, h.queue, receipts...)
}

// handleTogether handles messages in one invocation, as Lambda does.
func (s *service) handleTogether(ctx context.Context, h handler, got []queue.Delivery) error {
	if err := h.invoke(ctx, got...); err != nil {
		return err
	}
	receipts := make([]string, len(got))
	for i, m := range got {
		receipts[i] = m.Receipt
	}
	return s.queues.Delete(ctx, h.queue, receipts...)
}

// invoke passes messages to the function.
func (h handler) invoke(ctx context.Context, messages ...queue.Delivery) error {
	var batch lambda.SQSEvent
	for _, m := range messages {
		batch.Records = append(batch.Records, lambda.SQSMessage{
			MessageId: m.ID, ReceiptHandle: m.Receipt, Body: string(m.Body), EventSourceARN: "arn:aws:sqs:x:0:" + h.queue,
			Attributes: map[string]string{"ApproximateReceiveCount": strconv.Itoa(m.Receives)},
		})
	}
	out, err := h.handle(ctx, batch)
	if err != nil {
		return fmt.Errorf("messages like %s: %w", messages[0].Body, err)
	}
	if len(out.BatchItemFailures) > 0 {
		return fmt.Errorf("of the messages like %s, %d failed", messages[0].Body, len(out.BatchItemFailures))
	}
	return nil
}

// finished returns an error unless the run has succeeded.
func (s *service) finished(ctx context.Context, f flow, id string) error {
	data, err := s.call(ctx, http.MethodGet, "/runs/"+id, nil)
	if err != nil {
		return err
	}
	var run struct{ Status string }
	if err := json.Unmarshal(data, &run); err != nil {
		return err
	}
	if run.Status != succeeded {
		return fmt.Errorf("run %s of %s is %s", id, f.Name, run.Status)
	}
	return nil
}
