package httpapi

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/platform/telemetry"
)

// statuses maps error codes to HTTP statuses.
var statuses = map[errs.Code]int{
	errs.Invalid:         http.StatusBadRequest,
	errs.Unauthenticated: http.StatusUnauthorized,
	errs.Forbidden:       http.StatusForbidden,
	errs.NotFound:        http.StatusNotFound,
	errs.Conflict:        http.StatusConflict,
	errs.Gone:            http.StatusGone,
	errs.TooLarge:        http.StatusRequestEntityTooLarge,
	errs.Unprocessable:   http.StatusUnprocessableEntity,
	errs.TooMany:         http.StatusTooManyRequests,
	errs.Internal:        http.StatusInternalServerError,
	errs.Unavailable:     http.StatusServiceUnavailable,
}

// codeOf returns the error code of a status, for metrics.
func codeOf(status int) string {
	for code, s := range statuses {
		if s == status {
			return string(code)
		}
	}
	if status == http.StatusMethodNotAllowed {
		return "method_not_allowed"
	}
	return "other"
}

// retrySoon is the Retry-After of transient failures.
const retrySoon = time.Second

// answered is an error as the client receives it; its JSON form is the body.
type answered struct {
	Detail any `json:"detail"` // string, or []errs.Detail

	status  int
	headers http.Header
}

// answer converts a handler's error to the response, and records failures of
// the service for the log and the trace.
func (a *API) answer(ctx context.Context, err error) *answered {
	e := translate(err)
	c := callFrom(ctx)
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		// The client has gone, and nothing failed.
	case e.Code == errs.Internal:
		a.report(ctx, c, err)
	case e.Code == errs.Unavailable:
		c.failure = err
	case errors.Is(err, blob.ErrNotFound), errors.Is(err, blob.ErrDamaged):
		a.lost(ctx, err)
	}
	return toAnswer(e)
}

// lost logs an object that a record refers to and that cannot be read.
func (a *API) lost(ctx context.Context, err error) {
	code := "missing"
	if errors.Is(err, blob.ErrDamaged) {
		code = "damaged"
	}
	a.config.Log.ErrorContext(ctx, "object is missing or damaged", "why", code, "error", err)
	a.config.Metrics.Count(telemetry.ObjectsLost, telemetry.Dimensions{Code: code})
}

// translate gives every error a code. Transient errors of the table become 503
// with Retry-After: nothing was changed, so the client may send the same
// request again.
func translate(err error) *errs.Error {
	if e, ok := errors.AsType[*errs.Error](err); ok {
		return e
	}
	switch {
	case errors.Is(err, table.ErrThrottled), errors.Is(err, table.ErrConflict),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		e := errs.Wrap(errs.Unavailable, err, "The service is busy, try again")
		e.RetryAfter = retrySoon
		return e
	case errors.Is(err, blob.ErrNotFound), errors.Is(err, blob.ErrDamaged):
		// A handler for which a missing object is not an error handles it itself.
		return errs.Wrap(errs.Gone, err, "An object that the answer needs is missing or damaged in the object store")
	case errors.Is(err, table.ErrBadCursor):
		return errs.Wrap(errs.Invalid, err, "Invalid next_token")
	case errors.Is(err, table.ErrLimit):
		return errs.Wrap(errs.Unprocessable, err, "The request is too large to be stored")
	}
	return errs.Wrap(errs.Internal, err, "")
}

func toAnswer(e *errs.Error) *answered {
	status, ok := statuses[e.Code]
	if !ok {
		status = http.StatusInternalServerError
	}
	out := &answered{Detail: e.Message, status: status, headers: http.Header{}}
	switch {
	case status == http.StatusInternalServerError:
		out.Detail = internalDetail // the message, too, may reveal internals
	case len(e.Details) > 0:
		out.Detail = e.Details
	case e.Message == "":
		out.Detail = http.StatusText(status)
	}
	if status == http.StatusUnauthorized {
		out.headers.Set("WWW-Authenticate", "Bearer")
	}
	if e.RetryAfter > 0 {
		seconds := max(1, int(math.Ceil(e.RetryAfter.Seconds())))
		out.headers.Set("Retry-After", strconv.Itoa(seconds))
	}
	return out
}

const internalDetail = "Internal server error"

// write writes the error response.
func (e *answered) write(w http.ResponseWriter) {
	for name, values := range e.headers {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.status)
	_ = writeAnswer(w, e) // always encodable
}
