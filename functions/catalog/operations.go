package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// Operation is an HTTP operation with the function that serves it.
type Operation struct {
	httpapi.Operation
	Function string // name of the function
}

// API returns an API that only describes the operations of functions. They are
// built without dependencies and must not be called. It panics on duplicate
// operations.
func API(specs []fn.Spec, frame httpapi.Config) *httpapi.API {
	return (&Service{Specs: specs, Frame: frame}).API()
}

// Operations returns the operations of the functions, by path and method. It
// panics on duplicates.
func Operations(specs []fn.Spec) []Operation {
	api := httpapi.New(httpapi.Config{Title: "Millrace"})
	var out []Operation
	for _, s := range specs {
		if s.Routes == nil {
			continue
		}
		s.Routes(api, fn.Deps{})
		for _, op := range api.Operations()[len(out):] {
			out = append(out, Operation{Operation: op, Function: s.Name})
		}
	}
	slices.SortFunc(out, func(a, b Operation) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method))
	})
	return out
}

// Routed returns the functions that requests reach through the API: all but
// those with a URL of their own.
func Routed(specs []fn.Spec) []fn.Spec {
	return slices.DeleteFunc(slices.Clone(specs), func(s fn.Spec) bool { return s.Trigger.OwnURL })
}

// Public returns the operations that are not hidden.
func Public(ops []Operation) []Operation {
	return slices.DeleteFunc(slices.Clone(ops), func(op Operation) bool { return op.Hidden })
}

// Table formats operations as tab-separated values with a heading: method,
// path, permission, scopes that an API key needs, function.
func Table(ops []Operation) string {
	var b strings.Builder
	b.WriteString("method\tpath\tpermission\tapi_key_scopes\tfunction\n")
	for _, op := range ops {
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%s\n", op.Method, op.Path, op.Access, op.Access.Scopes(), op.Function)
	}
	return b.String()
}

// Markdown formats operations as the table in the README.
func Markdown(ops []Operation) string {
	var b strings.Builder
	b.WriteString("| | | what | needs |\n| --- | --- | --- | --- |\n")
	for _, op := range ops {
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", op.Method, op.Path, op.Summary, needs(op))
	}
	return b.String()
}

// needs returns what a caller needs, and the scopes of a key if they differ.
func needs(op Operation) string {
	access, scopes := op.Access.String(), op.Access.Scopes()
	if scopes == "" || scopes == access {
		return access
	}
	return access + "; keys: " + strings.ReplaceAll(scopes, "|", " or ")
}
