package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"reflect"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
)

// MaxBody is the default of the largest accepted request body, in bytes.
const MaxBody = 4 << 20

// Operation describes one endpoint. Domains define theirs with a [Group].
type Operation struct {
	ID          string // unique, e.g. "runs-create"
	Method      string
	Path        string // pattern, e.g. "/runs/{run_id}"
	Alias       string // another pattern that a [Group] serves the operation at; empty: none
	Function    string // that serves it, e.g. "runs"
	Tag         string // group in the description; empty: the function's name
	Summary     string // one line
	Description string // details that the summary omits; Markdown
	Example     string // of the body, in JSON; empty: derived from the example tags of its fields
	Status      int    // on success; 0: 200 with a body, 204 without
	Access      tenant.Access
	MaxBody     int64 // bytes; 0: MaxBody
	Reclaims    bool  // frees space or finishes work: a nearly full disk does not reject its writes, nor those of any DELETE
	AnyQuery    bool  // unknown query parameters are ignored instead of rejected
	Hidden      bool  // served, but not described in OpenAPI
	Errors      []int // statuses besides the framework's own
	// Credential checks the bearer credential, "" for none, of a public operation
	// before its body is read; nil: it has none.
	Credential func(ctx context.Context, bearer string) error
	Quiet      bool // successes are logged at level debug only, and not measured
	Stream     bool // the response is a [Stream] or a [File]; set by Register
}

// None is the input of an operation without parameters and body, and the output
// of one without a response body.
type None struct{}

// Register adds an operation. I is a struct whose fields have path:"…",
// query:"…" or header:"…" tags; a field Body is the JSON body, a field RawBody
// []byte receives any body unparsed. O is the body of the response, [None], a
// [Stream], a [File] or a [Redirect].
//
// In bodies a field without omitempty is required, a pointer accepts null,
// json.RawMessage and any are free-form. The tags minLength, maxLength,
// pattern, enum, minimum, maximum, minItems, maxItems, format, default, doc and
// example are checked and described, for parameters as for bodies. Unknown
// fields are rejected, except in maps, and so are unknown query parameters.
//
// handler returns *errs.Error; any other error is answered with 500. Register
// panics on an operation without Access, with a duplicate ID or a duplicate
// method and path, or with an unsupported input.
func Register[I, O any](a *API, op Operation, handler func(ctx context.Context, in *I) (O, error)) {
	a.register(op, endpointOf(handler))
}

// endpoint is a handler without its types, so that the code of the frame is not
// compiled anew for each operation.
type endpoint struct {
	code    uintptr // address of the handler's code
	in, out reflect.Type
	call    func(ctx context.Context, in any) (any, error) // in is a pointer
}

func endpointOf[I, O any](handler func(ctx context.Context, in *I) (O, error)) endpoint {
	return endpoint{
		reflect.ValueOf(handler).Pointer(), reflect.TypeFor[I](), reflect.TypeFor[O](),
		func(ctx context.Context, in any) (any, error) { return handler(ctx, in.(*I)) },
	}
}

func (a *API) register(op Operation, e endpoint) {
	a.validate(op)
	a.names.op = op.ID
	params, body := a.paramsOf(&op, e.in), bodyOf(e.in)
	switch reflect.Zero(e.out).Interface().(type) {
	case streamed, File:
		op.Stream = true
	}
	if op.Status == 0 {
		op.Status = http.StatusOK
		if e.out == reflect.TypeFor[None]() {
			op.Status = http.StatusNoContent
		}
	}
	a.describe(&op, params, body, e.out)

	a.router.Method(op.Method, op.Path, a.authorized(&op, func(ctx context.Context, c *call, w http.ResponseWriter, r *http.Request) {
		release, err := body.read(c, w, r, op.maxBody(), a.config.Bodies)
		defer release()
		in := reflect.New(e.in).Interface()
		if err == nil {
			err = fill(in, params, body, c, r)
		}
		if err != nil {
			a.answer(ctx, err).write(w)
			return
		}
		out, err := e.call(ctx, in)
		release() // a streamed response may continue for long
		if err != nil {
			a.answer(ctx, err).write(w)
			return
		}
		a.respond(ctx, w, r, op.Status, out)
	}))
	a.ops = append(a.ops, op)
}

// fill sets the input from a request. The error lists everything that is wrong
// with parameters and body.
func fill(in any, params []param, body *body, c *call, r *http.Request) error {
	details := append(readParams(in, params, c.op.AnyQuery, r), c.details...)
	if len(details) > 0 {
		return errs.Validation(details...)
	}
	return body.fill(c, in)
}

// respond writes the output of a handler.
func (a *API) respond(ctx context.Context, w http.ResponseWriter, r *http.Request, status int, out any) {
	switch out := out.(type) {
	case responder:
		if err := out.respond(w, r, status); err != nil {
			a.answer(ctx, err).write(w)
		}
	case None:
		w.WriteHeader(status)
	case streamed:
		if url := out.elsewhere(); url != "" {
			_ = Redirect{Location: url}.respond(w, r, http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		out.stream(ctx, w)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = writeAnswer(w, out) // always encodable
	}
}

// validate panics on an invalid operation.
func (a *API) validate(op Operation) {
	switch {
	case op.ID == "" || op.Method == "" || op.Path == "":
		panic(fmt.Sprintf("httpapi: operation %q %s %s lacks an id, method or path", op.ID, op.Method, op.Path))
	case op.Access.IsZero():
		panic(fmt.Sprintf("httpapi: operation %s says nothing about access", op.ID))
	case len(op.Path) > 1 && op.Path[len(op.Path)-1] == '/':
		panic(fmt.Sprintf("httpapi: operation %s: %s is served with a trailing slash as well, and is registered without", op.ID, op.Path))
	}
	for _, other := range a.ops {
		if other.ID == op.ID || other.Method == op.Method && other.Path == op.Path {
			panic(fmt.Sprintf("httpapi: operation %s (%s %s) is already registered as %s", op.ID, op.Method, op.Path, other.ID))
		}
	}
}

func (op *Operation) maxBody() int64 {
	if op.MaxBody == 0 {
		return MaxBody
	}
	return op.MaxBody
}

// reclaims reports whether a nearly full disk accepts the operation's writes.
func (op *Operation) reclaims() bool { return op.Reclaims || op.Method == http.MethodDelete }

// mutates reports whether the operation changes state, by its method.
func (op *Operation) mutates() bool {
	return op.Method != http.MethodGet && op.Method != http.MethodHead
}
