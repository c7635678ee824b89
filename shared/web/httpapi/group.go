package httpapi

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"unicode"

	"millrace/shared/account/tenant"
)

// Group is a group of operations of one function, with one tag. Operations that
// only read require its Reads, all others its Writes, unless an option says
// otherwise.
type Group struct {
	API      *API
	Function string // that serves them, e.g. "runs"
	Name     string // tag and prefix of operation ids; empty: the function's name
	Reads    tenant.Access
	Writes   tenant.Access
}

// Option modifies an operation of a group.
type Option func(*Operation)

// Doc sets the description of an operation, in Markdown, for details that the
// summary omits.
func Doc(text string) Option { return func(op *Operation) { op.Description = text } }

// Errors adds error statuses besides the framework's own.
func Errors(statuses ...int) Option { return func(op *Operation) { op.Errors = statuses } }

// Status sets the status of success, if it is neither 200 nor 204.
func Status(status int) Option { return func(op *Operation) { op.Status = status } }

// Access sets who may call the operation.
func Access(access tenant.Access) Option { return func(op *Operation) { op.Access = access } }

// ID sets the operation's id, if it is not derived from group and handler.
func ID(id string) Option { return func(op *Operation) { op.ID = id } }

// Alias serves the operation at another path, too. The second operation has the
// id of the first with the suffix -alias.
func Alias(path string) Option { return func(op *Operation) { op.Alias = path } }

// BodyLimit sets the largest accepted body in bytes, if it is not MaxBody.
func BodyLimit(bytes int64) Option { return func(op *Operation) { op.MaxBody = bytes } }

// Credential sets what checks the bearer credential of a public operation, "" if
// there is none, before its body is read.
func Credential(check func(ctx context.Context, bearer string) error) Option {
	return func(op *Operation) { op.Credential = check }
}

// Quiet declares that requests are many and alike: only failures are measured, and
// logged above the level debug.
func Quiet(op *Operation) { op.Quiet = true }

// Reclaims declares that the operation frees space or finishes work: a nearly
// full disk does not reject its writes.
func Reclaims(op *Operation) { op.Reclaims = true }

// AnyQuery makes the operation ignore unknown query parameters.
func AnyQuery(op *Operation) { op.AnyQuery = true }

// Hidden omits the operation from the description.
func Hidden(op *Operation) { op.Hidden = true }

// Get adds an operation that only reads. As for all operations, the handler is
// a named method: the operation's id is the group's name and the method's, in
// lower case with hyphens.
func Get[I, O any](g Group, path string, handler func(context.Context, *I) (O, error), summary string, opts ...Option) {
	g.add(http.MethodGet, path, endpointOf(handler), summary, opts)
}

// Post adds an operation that creates or does something.
func Post[I, O any](g Group, path string, handler func(context.Context, *I) (O, error), summary string, opts ...Option) {
	g.add(http.MethodPost, path, endpointOf(handler), summary, opts)
}

// Put adds an operation that replaces something.
func Put[I, O any](g Group, path string, handler func(context.Context, *I) (O, error), summary string, opts ...Option) {
	g.add(http.MethodPut, path, endpointOf(handler), summary, opts)
}

// Patch adds an operation that changes part of something.
func Patch[I, O any](g Group, path string, handler func(context.Context, *I) (O, error), summary string, opts ...Option) {
	g.add(http.MethodPatch, path, endpointOf(handler), summary, opts)
}

// Delete adds an operation that removes something.
func Delete[I, O any](g Group, path string, handler func(context.Context, *I) (O, error), summary string, opts ...Option) {
	g.add(http.MethodDelete, path, endpointOf(handler), summary, opts)
}

func (g Group) add(method, path string, e endpoint, summary string, opts []Option) {
	op := Operation{Method: method, Path: path, Function: g.Function, Tag: g.Name, Summary: summary, Access: g.Writes}
	if !op.mutates() {
		op.Access = g.Reads
	}
	for _, opt := range opts {
		opt(&op)
	}
	if op.ID == "" {
		op.ID = g.prefix() + "-" + hyphenated(methodName(e.code))
	}
	g.API.register(op, e)
	if op.Alias != "" {
		op.ID, op.Description = op.ID+"-alias", "The same as "+method+" "+path+". "+op.Description
		op.Path, op.Alias = op.Alias, ""
		g.API.register(op, e)
	}
}

func (g Group) prefix() string {
	if g.Name != "" {
		return g.Name
	}
	return g.Function
}

// methodName returns the name of a method value by its code's address. It panics
// on anything else, because a function literal has no stable name.
func methodName(code uintptr) string {
	full := runtime.FuncForPC(code).Name() // path/package.(*type).method-fm
	name, isMethod := strings.CutSuffix(full[strings.LastIndexByte(full, '.')+1:], "-fm")
	if !isMethod {
		panic("httpapi: " + full + " is no named method; give the operation an ID")
	}
	return name
}

// hyphenated converts draftCreate to draft-create.
func hyphenated(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
