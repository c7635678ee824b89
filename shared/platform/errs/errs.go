// Package errs defines the service's errors: a code that HTTP and callers act
// on, a message for the user, and a cause that is logged and never sent.
package errs

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Code classifies an error; package httpapi maps each to one HTTP status.
type Code string

// The codes, by HTTP status.
const (
	Invalid         Code = "invalid"         // 400: invalid operation, missing business value, bad cursor
	Unauthenticated Code = "unauthenticated" // 401: missing, invalid, expired or revoked credential
	Forbidden       Code = "forbidden"       // 403: permission, workspace mismatch, ownership mismatch
	NotFound        Code = "not_found"       // 404: does not exist in the workspace
	Conflict        Code = "conflict"        // 409: conflicts with the current state
	Gone            Code = "gone"            // 410: expired or consumed, or lost by the object store
	TooLarge        Code = "too_large"       // 413: body over the limit
	Unprocessable   Code = "unprocessable"   // 422: validation failed
	TooMany         Code = "too_many"        // 429: rate or quota
	Internal        Code = "internal"        // 500: service failure
	Unavailable     Code = "unavailable"     // 503: capability unavailable
)

// Detail is one validation entry, as the interface's errors list them.
type Detail struct {
	Type  string `json:"type"`  // machine-readable kind: missing, value_error, extra_forbidden …
	Loc   []any  `json:"loc"`   // path of strings and array indexes, e.g. ["body","flow_spec","tasks",0,"name"]
	Msg   string `json:"msg"`   // sentence for the user
	Input any    `json:"input"` // the offending value, null when absent
}

// Error is an error with a code and a message for the user.
type Error struct {
	Code       Code
	Message    string        // safe to send
	Details    []Detail      // set for validation errors: sent instead of Message
	RetryAfter time.Duration // sent as Retry-After with TooMany and Unavailable
	Cause      error         // logged, never sent
}

// Error joins message and cause, for logs.
func (e *Error) Error() string {
	s := string(e.Code) + ": " + e.Message
	if len(e.Details) > 0 {
		s = fmt.Sprintf("%s: %s (%d entries)", e.Code, e.Details[0].Msg, len(e.Details))
	}
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// New returns an error with a code and a formatted message for the user.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Wrap returns an error with a code and a cause for the log.
func Wrap(code Code, cause error, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Cause: cause}
}

// Validation returns a 422 with one or more entries.
func Validation(details ...Detail) *Error {
	return &Error{Code: Unprocessable, Message: "validation failed", Details: details}
}

// Field returns a 422 with one entry of type value_error.
func Field(loc []any, input any, format string, args ...any) *Error {
	return Validation(Detail{Type: "value_error", Loc: loc, Msg: fmt.Sprintf(format, args...), Input: input})
}

// Body returns the loc of a body field, e.g. Body("flow_spec","tasks",0).
func Body(path ...any) []any { return append([]any{"body"}, path...) }

// CodeOf returns the code of err, Internal for an error without one, and "" for
// nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Internal
}

// Text returns what an error tells the user, in one line, for errors that are
// kept instead of answered.
func Text(err error) string {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err.Error()
	}
	if len(e.Details) == 0 {
		return e.Message
	}
	var parts []string
	for _, d := range e.Details {
		loc := ""
		for _, step := range d.Loc[min(len(d.Loc), 1):] {
			loc = fmt.Sprint(loc, step, ".")
		}
		parts = append(parts, strings.TrimSuffix(loc, ".")+": "+d.Msg)
	}
	return strings.Join(parts, "; ")
}
