package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"millrace/shared/account/tenant"
)

// MaxBody is how many bytes a request body may have unless its operation says
// otherwise.
const MaxBody = 4 << 20

// Operation describes one endpoint.
type Operation struct {
	ID          string // unique, e.g. "runs-create"
	Method      string
	Path        string // pattern, e.g. "/runs/{run_id}"
	Domain      string // the function that serves it, e.g. "runs"
	Summary     string // one line
	Description string // what the summary leaves open; Markdown
	Status      int    // on success; 0: 200 with a body, 204 without
	Access      tenant.Access
	Stream      bool         // the answer is streamed: the output is huma.StreamResponse
	MaxBody     int64        // bytes; 0: MaxBody
	Output      reflect.Type // with Stream: the type the streamed JSON has, for the description
	Reclaims    bool         // it ends work or makes room: a nearly full disk does not refuse its writes, nor those of any DELETE
	Hidden      bool         // served, but not described in OpenAPI
	Errors      []int        // statuses this operation can answer besides the frame's own
}

// Register adds an operation. I and O are huma's input and output structs:
// fields of I carry path:"…", query:"…" or header:"…" tags, a field Body is the
// JSON body, a field RawBody []byte takes any body as it is. O has a field Body, and header:"…" fields, or Status
// int.
//
// In bodies a field without omitempty is required, a pointer accepts null,
// json.RawMessage and any are free-form, and tags (minLength, maxLength,
// pattern, enum, minimum, maximum, minItems, maxItems, format, default, doc)
// are checked and described. Unknown fields are refused, except in maps.
//
// handler returns *errs.Error; any other error is answered as a 500. Register
// panics on an operation without Access, with a taken ID, with a method and path
// that is taken, or with an input that embeds an unexported struct.
func Register[I, O any](a *API, op Operation, handler func(ctx context.Context, in *I) (*O, error)) {
	a.admit(op)
	in := reflect.TypeFor[I]()
	refuseHidden(op, in)
	h := a.describe(&op)
	body := bodyOf(in)

	h.Middlewares = huma.Middlewares{a.guard(&op), body.read(&op, a.config.Bodies)}
	a.names.op = op.ID
	huma.Register(a.huma, h, func(ctx context.Context, in *I) (*O, error) {
		c := callFrom(ctx)
		if err := c.faults(); err != nil {
			return nil, toAnswer(translate(err))
		}
		if err := body.fill(c, in); err != nil {
			return nil, toAnswer(translate(err))
		}
		out, err := handler(ctx, in)
		if c.release != nil {
			c.release() // an answer that is streamed may go on for long
		}
		if err != nil {
			return nil, a.answer(ctx, err)
		}
		return out, nil
	})
	a.finish(&op, &h, body)
	a.ops = append(a.ops, op)
}

// admit refuses operations that are described wrongly.
func (a *API) admit(op Operation) {
	switch {
	case op.ID == "" || op.Method == "" || op.Path == "":
		panic(fmt.Sprintf("httpapi: operation %q %s %s lacks an id, method or path", op.ID, op.Method, op.Path))
	case op.Access.IsZero():
		panic(fmt.Sprintf("httpapi: operation %s says nothing about access", op.ID))
	}
	for _, other := range a.ops {
		if other.ID == op.ID || other.Method == op.Method && other.Path == op.Path {
			panic(fmt.Sprintf("httpapi: operation %s (%s %s) is already registered as %s", op.ID, op.Method, op.Path, other.ID))
		}
	}
}

// refuseHidden panics on an input that embeds an unexported struct: huma would
// leave the struct's parameters empty without a word.
func refuseHidden(op Operation, in reflect.Type) {
	if in.Kind() != reflect.Struct {
		return
	}
	for f := range in.Fields() {
		if f.Anonymous && !f.IsExported() {
			panic(fmt.Sprintf("httpapi: operation %s: input %s embeds %s, whose parameters would stay empty", op.ID, in, f.Type))
		}
	}
}

// reclaims reports whether the operation's writes are accepted on a disk that is
// nearly full.
func (op *Operation) reclaims() bool { return op.Reclaims || op.Method == http.MethodDelete }

// mutates reports whether the operation changes something, by its method.
func (op *Operation) mutates() bool {
	return op.Method != http.MethodGet && op.Method != http.MethodHead
}
