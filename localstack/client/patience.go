package client

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// Pauses before a request is repeated, if the response names none.
const (
	firstPause = time.Second
	maxPause   = 30 * time.Second
)

// partPatience is the patience with the object store that takes a part of an
// upload, which may be sent again.
const partPatience = time.Minute

// Patience makes a client repeat requests that the server does not take at the
// moment: responses 429, 502, 503 and 504, and connections that fail. Only GET
// requests are repeated, and parts of uploads, whatever the client's patience.
type Patience struct {
	Total   time.Duration              // that a request may wait for in all
	Waiting func(time.Duration, error) // is called before each pause, with its cause; may be nil
}

// attempt calls a function until it succeeds, fails for good, or would wait for
// too long; then it returns the last error.
func (p Patience) attempt(ctx context.Context, call func() error) error {
	left, wait := p.Total, firstPause
	for {
		err := call()
		if err == nil || !transient(ctx, err) {
			return err
		}
		next := wait
		if answer, ok := errors.AsType[*Error](err); ok && answer.RetryAfter > 0 {
			next = answer.RetryAfter
		}
		if next > left {
			return err
		}
		if p.Waiting != nil {
			p.Waiting(next, err)
		}
		if !pause(ctx, next) {
			return ctx.Err()
		}
		left, wait = left-next, min(2*wait, maxPause)
	}
}

// patience returns the patience with a request.
func (c *Client) patience(method string) Patience {
	if method != http.MethodGet {
		return Patience{}
	}
	return c.Patience
}

// transient reports whether the same request may succeed later.
func transient(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	answer, ok := errors.AsType[*Error](err)
	if !ok {
		_, broken := errors.AsType[*brokenError](err)
		return broken
	}
	switch answer.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// brokenError is a connection that failed before the whole response was read.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return e.err.Error() }
func (e *brokenError) Unwrap() error { return e.err }

func broken(err error) error {
	if err == nil {
		return nil
	}
	return &brokenError{err}
}

// retryAfter reads a header Retry-After: seconds, or a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(max(seconds, 0)) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
