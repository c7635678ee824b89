package httpserver

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// progress ends requests whose clients neither send nor read.
func progress(next http.Handler, t times) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connKey{}).(*conn)
		x := &exchange{ResponseWriter: w, times: t, control: http.NewResponseController(w), conn: c}
		x.extendWrite()
		if r.Body != nil && r.Body != http.NoBody {
			// Also for what net/http itself reads of a body that the handler leaves.
			x.extendRead()
			x.body = r.Body
			watched := *r // net/http looks at the body of its own request
			watched.Body = body{x}
			r = &watched
		}
		// What is left of the answer is written when the handler has returned.
		defer x.extendWrite()
		next.ServeHTTP(x, r)
	})
}

// exchange is a request and its answer.
type exchange struct {
	http.ResponseWriter
	times   times
	control *http.ResponseController
	conn    *conn // nil: not counted
	body    io.ReadCloser

	got      int       // bytes of the body since readFrom
	readFrom time.Time // when the time for the next bytes began
	wrote    time.Time // when the time to write began
}

// extendRead gives the client time anew to send. Where deadlines cannot be set
// there is none.
func (x *exchange) extendRead() {
	x.got, x.readFrom = 0, time.Now()
	_ = x.control.SetReadDeadline(x.readFrom.Add(x.times.read))
}

// extendWrite gives the client time anew to read.
func (x *exchange) extendWrite() {
	now := time.Now()
	if now.Sub(x.wrote) < x.times.write/16 { // setting it costs more than a write to memory
		return
	}
	x.wrote = now
	_ = x.control.SetWriteDeadline(now.Add(x.times.write))
}

// waits notes that the client is being waited for since a time, or no more.
func (x *exchange) waits(since time.Time) {
	switch {
	case x.conn == nil:
	case since.IsZero():
		x.conn.held.Store(0)
	default:
		x.conn.held.Store(since.UnixNano())
	}
}

// body is the request's body.
type body struct{ x *exchange }

// Read reads what came. Errors: os.ErrDeadlineExceeded when the client is too slow.
func (b body) Read(p []byte) (int, error) {
	x := b.x
	x.waits(x.readFrom)
	n, err := x.body.Read(p)
	x.waits(time.Time{})
	switch x.got += n; {
	case errors.Is(err, io.EOF):
		// From now on net/http only waits for the client to hang up.
		_ = x.control.SetReadDeadline(time.Time{})
	case err == nil && x.got >= readLeast:
		x.extendRead()
	case errors.Is(err, os.ErrDeadlineExceeded):
		x.Header().Set("Connection", "close") // the rest may still come
		if x.conn != nil {
			x.conn.slow.Store(true)
		}
	}
	return n, err
}

// TooSlow reports whether the body of a request came too slowly. Its context has
// ended then, as if the client were gone.
func TooSlow(r *http.Request) bool {
	c, ok := r.Context().Value(connKey{}).(*conn)
	return ok && c.slow.Load()
}

// Close closes the body.
func (b body) Close() error { return b.x.body.Close() }

// Write writes in pieces, for each of which the client has time to read.
func (x *exchange) Write(p []byte) (n int, err error) {
	defer x.waits(time.Time{})
	for {
		x.extendWrite()
		x.waits(x.wrote)
		m, err := x.ResponseWriter.Write(p[:min(len(p), writeChunk)])
		n, p = n+m, p[m:]
		if err != nil || len(p) == 0 {
			return n, err
		}
	}
}

// Flush sends what was written.
func (x *exchange) Flush() { _ = x.FlushError() }

// FlushError is Flush, for http.ResponseController.
func (x *exchange) FlushError() error {
	defer x.waits(time.Time{})
	x.extendWrite()
	x.waits(x.wrote)
	return x.control.Flush()
}

// Unwrap is for http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }
