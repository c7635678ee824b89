// Package gateway emulates API Gateway's REST API: it routes requests to
// functions by the integrations of its definition, passes them on as proxy
// events, and sends the functions' responses, buffered or as a stream.
package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"millrace/localstack/runtimeapi"
)

// MaxBody is the largest request that API Gateway accepts, in bytes.
const MaxBody = 10 << 20

// Route is an operation with its integration.
type Route struct {
	Method   string // GET …; AnyMethod means those without another route
	Path     string // in OpenAPI form: /runs/{run_id}
	Function string // name
	Stream   bool   // the function streams its response
	Timeout  time.Duration
}

// AnyMethod matches the methods of a path without a route of their own.
const AnyMethod = "ANY"

// Config is an API.
type Config struct {
	Stage  string
	Routes []Route
	// Responses replace the gateway's own responses, by kind.
	Responses map[string]Response
	// Invoke invokes a function with an event. A *runtimeapi.Fault is the
	// function's.
	Invoke func(ctx context.Context, function string, payload []byte) (*runtimeapi.Answer, error)
	Log    *slog.Logger
}

// New returns the handler of an API without its stage. Requests without a route
// are answered with 403, as by API Gateway.
func New(cfg Config) http.Handler {
	router := chi.NewMux()
	// Routes of any method first, so that others override them.
	for _, route := range cfg.Routes {
		if route.Method == AnyMethod {
			router.Handle(pattern(route), cfg.handler(route))
		}
	}
	for _, route := range cfg.Routes {
		if route.Method != AnyMethod {
			router.Method(route.Method, pattern(route), cfg.handler(route))
		}
	}
	none := func(w http.ResponseWriter, r *http.Request) {
		cfg.respond(w, r, missing)
	}
	router.NotFound(none)
	router.MethodNotAllowed(none)
	return router
}

// pattern returns a route's path in the router's form.
func pattern(route Route) string { return strings.ReplaceAll(route.Path, "{proxy+}", "*") }

// handler returns the handler of a route.
func (cfg *Config) handler(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, MaxBody)
		if err := cfg.answer(w, r, route); err != nil {
			cfg.Log.Error("no answer", "method", r.Method, "path", r.URL.Path, "error", err)
			panic(http.ErrAbortHandler)
		}
	})
}

// answer responds to a request with its function's response. An error means
// that the response cannot be completed.
func (cfg *Config) answer(w http.ResponseWriter, r *http.Request, route Route) error {
	event, err := proxyEvent(r, cfg.Stage, route.Path)
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		cfg.respond(w, r, tooLarge)
		return nil
	}
	if err != nil {
		return err
	}
	payload, err := json.Marshal(event)
	if err != nil {
		return err
	}
	ctx := r.Context()
	if route.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, route.Timeout)
		defer cancel()
	}
	answer, err := cfg.Invoke(ctx, route.Function, payload)
	switch {
	case err != nil && r.Context().Err() != nil:
		return nil // the client has disconnected
	case errors.Is(err, context.DeadlineExceeded):
		cfg.respond(w, r, timedOut)
		return nil
	case err != nil:
		cfg.Log.Error("function failed", "function", route.Function, "method", r.Method, "path", r.URL.Path, "error", err)
		cfg.respond(w, r, failed)
		return nil
	}
	defer answer.Body.Close()
	if streamed := answer.ContentType == streamType; streamed != route.Stream {
		return fmt.Errorf("%s answers as a stream: %v, its integration says %v", route.Function, streamed, route.Stream)
	}
	if route.Stream {
		return stream(w, answer.Body)
	}
	return whole(w, answer.Body)
}
