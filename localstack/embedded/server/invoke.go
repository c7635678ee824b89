package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"millrace/functions/catalog"
	"millrace/localstack/embedded/runtime"
	"millrace/localstack/localhost"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/telemetry"
	"millrace/shared/web/fn"
	"millrace/shared/web/gateway"
	"millrace/shared/web/httpapi"
)

// The largest payloads that Lambda accepts.
const (
	maxPayload      = 6 << 20 // of a synchronous invocation
	maxAsyncPayload = 1 << 20 // of an asynchronous one
)

// functions serves the Lambda Invoke API for every function of the catalog.
type functions struct {
	server *Server
	frame  httpapi.Config
	whole  *httpapi.API
	deps   fn.Deps
	log    *slog.Logger

	mu   sync.Mutex
	http map[string]*gateway.Function // by function, built on first invocation

	running context.Context // of asynchronous invocations
	kill    context.CancelFunc
	async   sync.WaitGroup
}

func newFunctions(s *Server, frame httpapi.Config, whole *httpapi.API, deps fn.Deps) *functions {
	f := &functions{server: s, frame: frame, whole: whole, deps: deps, log: s.cfg.Log, http: map[string]*gateway.Function{}}
	f.running, f.kill = context.WithCancel(context.Background())
	return f
}

// Stop waits for asynchronous invocations until ctx ends, and then cancels
// them.
func (f *functions) Stop(ctx context.Context) {
	done := make(chan struct{})
	go func() { f.async.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
	f.kill()
	<-done
}

// invoke serves POST /2015-03-31/functions/{name}/invocations.
func (f *functions) invoke(w http.ResponseWriter, r *http.Request) {
	now := f.deps.Clock.Now()
	w.Header().Set("X-Amzn-Requestid", ids.New(now))
	verify, err := f.server.credentials.Keys().Check(r, now)
	if err != nil {
		deny(w, err)
		return
	}
	kind, limit := r.Header.Get("X-Amz-Invocation-Type"), int64(maxPayload)
	if kind == "Event" {
		limit = maxAsyncPayload
	}
	payload, release, err := f.frame.Bodies.ReadBody(w, r, limit)
	defer release()
	switch known, _ := errors.AsType[*errs.Error](err); {
	case known != nil && known.Code == errs.TooLarge:
		fail(w, http.StatusRequestEntityTooLarge, "RequestTooLargeException", fmt.Sprintf("The payload is over %d bytes", limit))
		return
	case known != nil && known.Code == errs.Unavailable:
		fail(w, http.StatusTooManyRequests, "TooManyRequestsException", known.Message)
		return
	case err != nil:
		fail(w, http.StatusBadRequest, "InvalidRequestContentException", "The payload did not come whole")
		return
	}
	if err := verify(payload); err != nil {
		deny(w, err)
		return
	}
	name := functionName(r.PathValue("name"))
	spec, found := catalog.Find(f.server.specs, name)
	switch {
	case !found:
		fail(w, http.StatusNotFound, "ResourceNotFoundException", "Function not found: "+name)
		return
	case len(payload) == 0:
		payload = []byte("{}")
	case !json.Valid(payload):
		fail(w, http.StatusBadRequest, "InvalidRequestContentException", "Could not parse request body into json")
		return
	}
	switch kind {
	case "DryRun":
		w.WriteHeader(http.StatusNoContent)
	case "Event":
		f.async.Go(func() {
			if _, err := f.call(f.running, spec, payload); err != nil {
				f.log.ErrorContext(about(f.running, name), "invocation failed", "error", err)
			}
		})
		w.WriteHeader(http.StatusAccepted)
	case "", "RequestResponse":
		w.Header().Set("X-Amz-Executed-Version", "$LATEST")
		w.Header().Set("Content-Type", "application/json")
		answer, err := f.answer(r.Context(), spec, payload)
		if err != nil {
			w.Header().Set("X-Amz-Function-Error", "Unhandled")
			answer = mustMarshal(map[string]string{"errorMessage": err.Error(), "errorType": errorType(err)})
		}
		_, _ = w.Write(answer) // the client may have disconnected
	default:
		fail(w, http.StatusBadRequest, "InvalidParameterValueException", "Invocation type is RequestResponse, Event or DryRun")
	}
}

// functionName returns the name in a name, name:version or ARN, as Lambda does.
func functionName(s string) string {
	if _, after, found := strings.Cut(s, ":function:"); found {
		s = after
	}
	name, _, _ := strings.Cut(s, ":")
	return name
}

// answer runs a function. For the scheduler's tick it waits until the messages
// it sent are settled: a manual tick then shows its results, and the next one
// finds nothing left over.
func (f *functions) answer(ctx context.Context, spec fn.Spec, payload json.RawMessage) (json.RawMessage, error) {
	if !spec.Trigger.EveryMinute {
		return f.call(ctx, spec, payload)
	}
	tracked, handed := f.server.runtime.Track(ctx)
	defer handed.Close()
	answer, err := f.call(tracked, spec, payload)
	if err != nil {
		return nil, err
	}
	return answer, handed.Wait(ctx)
}

// call runs a function within its time-out.
func (f *functions) call(ctx context.Context, spec fn.Spec, payload json.RawMessage) (out json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			f.log.ErrorContext(about(ctx, spec.Name), "function panicked", "error", fmt.Sprint(p), "traceback", string(debug.Stack()))
			err = panicked{p}
		}
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, spec.Timeout, timedOut{spec.Timeout})
	defer cancel()
	if spec.Routes != nil {
		out, err = f.proxy(about(ctx, spec.Name), spec, payload)
	} else {
		out, err = f.server.runtime.Invoke(ctx, spec.Name, payload)
	}
	if cause, ok := errors.AsType[timedOut](context.Cause(ctx)); ok && err != nil {
		err = cause
	}
	return out, err
}

// proxy passes a proxy event to an HTTP function: of API Gateway, or of the
// function's URL.
func (f *functions) proxy(ctx context.Context, spec fn.Spec, payload json.RawMessage) (json.RawMessage, error) {
	if spec.Trigger.OwnURL {
		return proxied(ctx, f.gateway(spec).AnswerURL, payload)
	}
	return proxied(ctx, f.gateway(spec).Answer, payload)
}

// proxied returns the response to an event, both in JSON.
func proxied[In, Out any](ctx context.Context, handle func(context.Context, In) (Out, error), payload json.RawMessage) (json.RawMessage, error) {
	var event In
	if err := json.Unmarshal(payload, &event); err != nil {
		return nil, fmt.Errorf("the payload is not a proxy event: %w", err)
	}
	out, err := handle(ctx, event)
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// gateway returns the function with only its own operations.
func (f *functions) gateway(spec fn.Spec) *gateway.Function {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.http[spec.Name] == nil {
		frame := f.frame
		if spec.Trigger.Unmatched {
			frame.Whole = func() *httpapi.API { return f.whole }
		}
		f.http[spec.Name] = gateway.New(spec, frame, f.deps, nil)
	}
	return f.http[spec.Name]
}

// about returns a context whose subject is a function.
func about(ctx context.Context, function string) context.Context {
	return telemetry.With(ctx, &telemetry.Subject{Function: function})
}

// totals returns the metrics since the start.
func (f *functions) totals(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", telemetry.TotalsType)
	_ = f.deps.Metrics.WriteTotals(w) // the client may have disconnected
}

type timedOut struct{ after time.Duration }

// Error is Lambda's text of a time-out.
func (t timedOut) Error() string {
	return fmt.Sprintf("Task timed out after %.2f seconds", t.after.Seconds())
}

type panicked struct{ value any }

func (p panicked) Error() string { return fmt.Sprint(p.value) }

// errorType names an error by its Go type, as the Lambda runtime does.
func errorType(err error) string {
	switch {
	case errors.Is(err, runtime.ErrUnknownFunction):
		return "ResourceNotFoundException"
	case reflect.TypeOf(err).Kind() == reflect.Pointer:
		return reflect.TypeOf(err).Elem().Name()
	}
	return reflect.TypeOf(err).Name()
}

// deny responds to a call without a valid credential, in the shapes of Lambda
// and of the API.
func deny(w http.ResponseWriter, err error) {
	kind := "UnrecognizedClientException"
	if authErr, ok := errors.AsType[*localhost.AuthError](err); ok {
		kind = authErr.Kind
	}
	w.Header().Set("WWW-Authenticate", "AWS4-HMAC-SHA256, Bearer")
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Amzn-Errortype", kind)
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write(mustMarshal(map[string]string{"Type": "User", "Message": err.Error(), "detail": err.Error()})) // the client may be gone
}

// fail responds as the Lambda service does if it invokes nothing.
func fail(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Amzn-Errortype", kind)
	w.WriteHeader(status)
	_, _ = w.Write(mustMarshal(map[string]string{"Type": "User", "Message": message}))
}

func mustMarshal(v map[string]string) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings always marshal
	}
	return data
}
