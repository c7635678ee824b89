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

// statuses maps the codes of errors to HTTP.
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

// codeOf names an error status in metrics: by the code that it stands for.
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

// retrySoon is the Retry-After of failures that pass by themselves.
const retrySoon = time.Second

// answered is an error as the client gets it; its JSON form is the body.
type answered struct {
	Detail any `json:"detail"` // string, or []errs.Detail

	status  int
	headers http.Header
}

// answer turns what a handler returned into what the client gets, and notes
// failures of the service for the log and the trace.
func (a *API) answer(ctx context.Context, err error) *answered {
	e := translate(err)
	c := callFrom(ctx)
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		// The client is gone; nobody reads the answer, and nothing failed.
	case e.Code == errs.Internal:
		a.report(ctx, c, err)
	case e.Code == errs.Unavailable:
		c.failure = err
	case errors.Is(err, blob.ErrNotFound), errors.Is(err, blob.ErrDamaged):
		a.lost(ctx, err)
	}
	return toAnswer(e)
}

// lost tells of an object that a record refers to and that cannot be read.
func (a *API) lost(ctx context.Context, err error) {
	code := "missing"
	if errors.Is(err, blob.ErrDamaged) {
		code = "damaged"
	}
	a.config.Log.ErrorContext(ctx, "an object is lost", "why", code, "error", err)
	a.config.Metrics.Count(telemetry.ObjectsLost, telemetry.Dimensions{Code: code})
}

// translate gives every error a code. Errors of the table that pass by
// themselves become 503 with Retry-After: nothing was changed, so the same
// request may be sent again.
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
		// A handler for which an object may be absent says so itself.
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
		out.Detail = internalDetail // the message, too, may tell of the inside
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

// write sends the error.
func (e *answered) write(w http.ResponseWriter) {
	for name, values := range e.headers {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.status)
	_ = writeAnswer(w, e) // always writable
}
