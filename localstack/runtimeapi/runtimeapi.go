// Package runtimeapi emulates the Lambda Runtime API, the HTTP interface by
// which a function's process receives and answers events, so that the real
// binary and the real Python handler run as they are deployed. Streamed answers
// are passed on as they arrive; of the others it takes 6 MB, as Lambda does. Of
// the Extensions API it has what a process needs to receive SIGTERM.
package runtimeapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"millrace/shared/platform/ids"
)

// DefaultTimeout is the default time-out of an event.
const DefaultTimeout = time.Minute

// MaxAnswer is the largest answer in bytes, unless it is streamed.
const MaxAnswer = 6<<20 + 100

// Event is one invocation.
type Event struct {
	Payload []byte        // JSON
	Timeout time.Duration // 0 means DefaultTimeout
	Tenant  string        // of a function in tenant isolation mode
	ARN     string        // of the invoked function
}

// Fault is an error of a function or of its start.
type Fault struct {
	Type    string `json:"errorType"`
	Message string `json:"errorMessage"`
}

// Error returns type and message.
func (f *Fault) Error() string { return f.Type + ": " + f.Message }

// Answer is a function's answer. Body is read as it is written; a stream that
// the function aborts ends with a *Fault. The caller must close it.
type Answer struct {
	Body        io.ReadCloser
	ContentType string
	Streamed    bool // by Lambda's streaming mode, or in chunks of unknown length
}

// Bytes reads the whole answer and closes it.
func (a *Answer) Bytes() ([]byte, error) {
	data, err := io.ReadAll(a.Body)
	return data, errors.Join(err, a.Body.Close())
}

// API is the Runtime API of one process. Create it with Start.
type API struct {
	server   *http.Server
	listener net.Listener
	calls    chan *call

	polled     chan struct{}
	pollOnce   sync.Once
	initFaults chan *Fault
	registered chan string

	mu      sync.Mutex
	pending map[string]*call
}

type call struct {
	id      string
	event   Event
	answers chan result
}

type result struct {
	answer *Answer
	fault  *Fault
}

// Start serves on a free port of this machine until Close.
func Start() (*API, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a := &API{
		listener: listener, calls: make(chan *call), pending: map[string]*call{},
		polled: make(chan struct{}), initFaults: make(chan *Fault, 1), registered: make(chan string, 1),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", a.next)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/response", a.response)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/error", a.failure)
	mux.HandleFunc("POST /2018-06-01/runtime/init/error", a.initError)
	mux.HandleFunc("POST /2020-01-01/extension/register", a.register)
	mux.HandleFunc("GET /2020-01-01/extension/event/next", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	a.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = a.server.Serve(listener) }()
	return a, nil
}

// Address returns the value of AWS_LAMBDA_RUNTIME_API for the process.
func (a *API) Address() string { return a.listener.Addr().String() }

// Close stops serving.
func (a *API) Close() error { return a.server.Close() }

// Polled returns a channel that is closed when the process first requests an
// event.
func (a *API) Polled() <-chan struct{} { return a.polled }

// InitFaults returns a channel with the fault of a process that reports that it
// cannot start.
func (a *API) InitFaults() <-chan *Fault { return a.initFaults }

// Extensions returns a channel with the names of extensions that register.
func (a *API) Extensions() <-chan string { return a.registered }

// Invoke passes an event to the process, when it requests one, and returns its
// answer. Errors: a *Fault if the function failed; ctx's.
func (a *API) Invoke(ctx context.Context, e Event) (*Answer, error) {
	c := &call{id: ids.New(time.Now()), event: e, answers: make(chan result, 1)}
	a.mu.Lock()
	a.pending[c.id] = c
	a.mu.Unlock()
	select {
	case a.calls <- c:
	case <-ctx.Done():
		a.claim(c.id)
		return nil, context.Cause(ctx)
	}
	select {
	case r := <-c.answers:
		if r.fault != nil {
			return nil, r.fault
		}
		return r.answer, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Ready waits until the process requests an event, which means that it has
// finished the previous one. Errors: ctx's.
func (a *API) Ready(ctx context.Context) error {
	select {
	case a.calls <- nil:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// claim returns a call that waits for its answer.
func (a *API) claim(id string) *call {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.pending[id]
	delete(a.pending, id)
	return c
}

func (a *API) next(w http.ResponseWriter, r *http.Request) {
	a.pollOnce.Do(func() { close(a.polled) })
	for {
		select {
		case <-r.Context().Done():
			return
		case c := <-a.calls:
			if c != nil { // otherwise it was only a call of Ready
				give(w, c)
				return
			}
		}
	}
}

// give answers a request for an event.
func give(w http.ResponseWriter, c *call) {
	h := w.Header()
	h.Set("Lambda-Runtime-Aws-Request-Id", c.id)
	h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(time.Now().Add(cmp.Or(c.event.Timeout, DefaultTimeout)).UnixMilli(), 10))
	h.Set("Lambda-Runtime-Invoked-Function-Arn", c.event.ARN)
	if c.event.Tenant != "" {
		h.Set("Lambda-Runtime-Aws-Tenant-Id", c.event.Tenant)
	}
	h.Set("Content-Type", "application/json")
	_, _ = w.Write(c.event.Payload) // the process may have ended
}

// response passes an answer on while it arrives.
func (a *API) response(w http.ResponseWriter, r *http.Request) {
	c := a.claim(r.PathValue("id"))
	if c == nil {
		refuse(w, "InvalidRequestID")
		return
	}
	streaming := r.Header.Get("Lambda-Runtime-Function-Response-Mode") == "streaming"
	var body io.Reader = r.Body
	if !streaming {
		data, err := io.ReadAll(io.LimitReader(r.Body, MaxAnswer+1))
		if err == nil && len(data) > MaxAnswer {
			_, _ = io.Copy(io.Discard, r.Body) // the process may have ended
			c.answers <- result{fault: &Fault{
				Type: "Function.ResponseSizeTooLarge", Message: fmt.Sprintf("Response payload size exceeded maximum allowed payload size (%d bytes).", MaxAnswer),
			}}
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		body = io.MultiReader(bytes.NewReader(data), failing{err})
	}
	reader, writer := io.Pipe()
	c.answers <- result{answer: &Answer{
		Body: reader, ContentType: r.Header.Get("Content-Type"), Streamed: streaming || r.ContentLength < 0,
	}}
	_, err := io.Copy(writer, body)
	if errors.Is(err, io.ErrClosedPipe) { // the reader has left: Lambda lets the function finish
		_, err = io.Copy(io.Discard, body)
	}
	if err == nil {
		err = trailing(r.Trailer)
	}
	_ = writer.CloseWithError(err) // never fails
	w.WriteHeader(http.StatusAccepted)
}

// failing is the end of a body: err, or io.EOF.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, cmp.Or(f.err, io.EOF) }

// trailing returns the fault that ends a stream, nil if it is complete.
func trailing(trailer http.Header) error {
	kind := trailer.Get("Lambda-Runtime-Function-Error-Type")
	if kind == "" {
		return nil
	}
	f := &Fault{Type: kind}
	if body, err := base64.StdEncoding.DecodeString(trailer.Get("Lambda-Runtime-Function-Error-Body")); err == nil {
		_ = json.Unmarshal(body, f) // the type is sufficient
	}
	return f
}

func (a *API) failure(w http.ResponseWriter, r *http.Request) {
	c := a.claim(r.PathValue("id"))
	if c == nil {
		refuse(w, "InvalidRequestID")
		return
	}
	c.answers <- result{fault: readFault(r)}
	w.WriteHeader(http.StatusAccepted)
}

func (a *API) initError(w http.ResponseWriter, r *http.Request) {
	select {
	case a.initFaults <- readFault(r):
	default:
	}
	w.WriteHeader(http.StatusAccepted)
}

func readFault(r *http.Request) *Fault {
	f := &Fault{}
	if err := json.NewDecoder(r.Body).Decode(f); err != nil {
		f.Message = fmt.Sprintf("unreadable fault: %v", err)
	}
	f.Type = cmp.Or(f.Type, r.Header.Get("Lambda-Runtime-Function-Error-Type"))
	return f
}

func (a *API) register(w http.ResponseWriter, r *http.Request) {
	select {
	case a.registered <- r.Header.Get("Lambda-Extension-Name"):
	default:
	}
	w.Header().Set("Lambda-Extension-Identifier", ids.New(time.Now()))
	_, _ = w.Write([]byte(`{"functionName":"local","functionVersion":"$LATEST","handler":""}`))
}

func refuse(w http.ResponseWriter, kind string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = fmt.Fprintf(w, `{"errorType":%q,"errorMessage":"no such invocation"}`, kind)
}
