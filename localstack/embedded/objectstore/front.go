package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/versity/versitygw/s3err"

	"millrace/localstack/embedded/httpserver"
)

// copyBuffer is how many bytes of a body are passed on at once.
const copyBuffer = 32 << 10

// longestSocket is how long the path of a Unix socket may be on every system.
const longestSocket = 100

// newFront is what listens in front of the gateway, which has no time-outs and
// lets nobody else listen for it: a server whose clients can hold nothing up, that
// passes requests on to the gateway's socket as they are.
func newFront(socket string, transport *http.Transport, connections int, log *slog.Logger) *httpserver.Server {
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
		return gatewayConn{c}, err
	}
	transport.DisableCompression = true
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 64, 64
	transport.IdleConnTimeout = time.Minute
	transport.ExpectContinueTimeout = time.Second
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "objects"
			r.Out.Host = r.In.Host                 // the signature covers it
			r.Out.URL.RawQuery = r.In.URL.RawQuery // and this, as it was written
			if r.Out.ContentLength != 0 {
				// The gateway may refuse it before it has read the body, and then takes
				// what comes of it for requests: nobody else gets this connection.
				r.Out.Close = true //guard:objects/bodies drop
				r.Out.Body = &received{ReadCloser: r.Out.Body}
			}
		},
		Transport:      transport,
		BufferPool:     &buffers{},
		ModifyResponse: presigned,
		ErrorHandler:   func(w http.ResponseWriter, r *http.Request, err error) { failed(w, r, err, log) },
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug), // of clients that went away
	}
	return httpserver.New(httpserver.Config{Handler: forward, Connections: connections, Log: log})
}

// gatewayConn is a connection to the gateway, which may answer and close before it
// has read all of a body. The transport would take that for a failure and lose the
// answer: what cannot be written any more is dropped. Reading tells how it ended.
type gatewayConn struct{ net.Conn }

// Write writes p, or drops it if the gateway reads no more.
func (c gatewayConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return len(p), nil
	}
	return n, err
}

// presigned answers a request of a presigned URL, whose client knows the service
// rather than S3, like the service when there is no room: 503, try again.
func presigned(res *http.Response) error {
	if res.StatusCode == http.StatusInsufficientStorage && res.Request.URL.Query().Has("X-Amz-Signature") {
		res.StatusCode, res.Status = http.StatusServiceUnavailable, ""
		res.Header.Set("Retry-After", strconv.Itoa(int(roomAfter.Seconds())))
	}
	return nil
}

// roomAfter is when a write that was refused for want of room may be tried again.
const roomAfter = 10 * time.Second

// failed answers a request that did not get through to the gateway, or whose body
// did not come.
func failed(w http.ResponseWriter, r *http.Request, err error, log *slog.Logger) {
	answer := s3err.GetAPIError(s3err.ErrSlowDown)
	switch {
	case httpserver.TooSlow(r):
		answer = s3err.APIError{
			Code: "RequestTimeout", HTTPStatusCode: http.StatusBadRequest,
			Description: "The body came too slowly: nothing was read from the connection within the timeout period",
		}
	case r.Context().Err() != nil: // the client is gone
	case broken(r):
		answer = s3err.GetAPIError(s3err.ErrIncompleteBody)
	default:
		log.Error("object store: request not passed on", "method", r.Method, "error", err)
	}
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("Connection", "close")
	w.WriteHeader(answer.StatusCode())
	_, _ = w.Write(answer.XMLBody("", "")) // the client may be gone
}

// received is a body that knows whether it came whole.
type received struct {
	io.ReadCloser
	broken atomic.Bool
}

// Read reads from the client.
func (b *received) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.broken.Store(true)
	}
	return n, err
}

// broken reports whether the body of a request cannot be read: it is no fault of
// the gateway.
func broken(r *http.Request) bool {
	b, ok := r.Body.(*received)
	return ok && b.broken.Load()
}

// buffers are those with which bodies are passed on.
type buffers struct{ pool sync.Pool }

// Get takes a buffer.
func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, copyBuffer)
}

// Put gives it back.
func (b *buffers) Put(p []byte) { b.pool.Put(&p) }

// socketPath is where the gateway listens: in the data directory, or if its path is
// too long for that in a directory of its own, which remove removes.
func socketPath(dir string) (path string, remove func() error, err error) {
	none := func() error { return nil }
	path = filepath.Join(dir, "objects.sock")
	if len(path) <= longestSocket {
		return path, func() error { return removeFile(path) }, nil
	}
	own, err := os.MkdirTemp("", "millrace-")
	if err != nil {
		return "", none, err
	}
	path = filepath.Join(own, "s3")
	if len(path) > longestSocket {
		return "", none, errors.Join(fmt.Errorf("the path %s is too long for a socket: use a shorter data directory", path), os.RemoveAll(own))
	}
	return path, func() error { return os.RemoveAll(own) }, nil
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// endpoint is the URL under which clients on this machine reach a listener; one on
// all addresses is reached by loopback.
func endpoint(address net.Addr) string {
	host, port, _ := net.SplitHostPort(address.String())
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return (&url.URL{Scheme: "http", Host: net.JoinHostPort(host, port)}).String()
}
