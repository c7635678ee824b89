package httpserver

import (
	"errors"
	"io"
	"net/http"
	"os"
	"runtime"
	"time"
)

// progress ends requests whose clients neither send nor read.
func progress(next http.Handler, t times) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connKey{}).(*conn)
		x := &exchange{ResponseWriter: w, times: t, control: http.NewResponseController(w), conn: c}
		x.extendWrite()
		if r.Body != nil && r.Body != http.NoBody {
			// Also for the rest of a body, which net/http reads itself.
			x.extendRead()
			x.body = r.Body
			watched := *r // net/http inspects the body of its own request
			watched.Body = body{x}
			r = &watched
		}
		// The rest of the response is written after the handler has returned.
		defer x.extendWrite()
		next.ServeHTTP(x, r)
	})
}

// exchange is a request and its response.
type exchange struct {
	http.ResponseWriter
	times   times
	control *http.ResponseController
	conn    *conn // nil: not counted
	body    io.ReadCloser

	got      int       // bytes of the body since readFrom
	readFrom time.Time // start of the period for the next bytes
	wrote    time.Time // start of the period for writing
}

// extendRead gives the client a new period to send. Connections without
// deadlines have no period.
func (x *exchange) extendRead() {
	x.got, x.readFrom = 0, time.Now()
	_ = x.control.SetReadDeadline(x.readFrom.Add(x.times.read))
}

// extendWrite gives the client a new period to read.
func (x *exchange) extendWrite() {
	now := time.Now()
	if now.Sub(x.wrote) < x.times.write/16 { // setting a deadline costs more than a write to memory
		return
	}
	x.wrote = now
	_ = x.control.SetWriteDeadline(now.Add(x.times.write))
}

// waits records since when the server waits for the client; zero if it does
// not.
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

// Read implements io.Reader. Errors: os.ErrDeadlineExceeded if the client is
// too slow.
func (b body) Read(p []byte) (int, error) {
	x := b.x
	x.waits(x.readFrom)
	n, err := x.body.Read(p)
	x.waits(time.Time{})
	switch x.got += n; {
	case errors.Is(err, io.EOF):
		// From now on net/http only waits for the client to disconnect.
		_ = x.control.SetReadDeadline(time.Time{})
	case err == nil && x.got >= readLeast:
		x.extendRead()
	case errors.Is(err, os.ErrDeadlineExceeded):
		x.Header().Set("Connection", "close") // the rest may still arrive
		if x.conn != nil {
			x.conn.slow.Store(true)
		}
	}
	return n, err
}

// TooSlow reports whether the body of a request arrived too slowly. In this
// case its context ends as if the client had disconnected.
func TooSlow(r *http.Request) bool {
	c, ok := r.Context().Value(connKey{}).(*conn)
	return ok && c.slow.Load()
}

// Close closes the body.
func (b body) Close() error { return b.x.body.Close() }

// Write writes in pieces and gives the client time to read each of them.
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
		// Many large responses that fit the kernel's buffers would otherwise be
		// written one after the other before anyone else's request begins.
		runtime.Gosched()
	}
}

// Flush sends what was written.
func (x *exchange) Flush() { _ = x.FlushError() }

// FlushError is Flush for http.ResponseController.
func (x *exchange) FlushError() error {
	defer x.waits(time.Time{})
	x.extendWrite()
	x.waits(x.wrote)
	return x.control.Flush()
}

// Unwrap supports http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }
