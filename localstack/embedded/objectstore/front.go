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
	"millrace/shared/web/cors"
)

// copyBuffer is the number of bytes of a body that are forwarded at once.
const copyBuffer = 32 << 10

// longestSocket is the longest path of a Unix socket that every system
// supports.
const longestSocket = 100

// newFront returns the server in front of the gateway. The gateway has no
// time-outs and does not accept a listener, so the front protects it from slow
// clients and forwards requests unchanged to its socket.
func newFront(socket string, transport *http.Transport, origins cors.Origins, connections int, log *slog.Logger) *httpserver.Server {
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
			r.Out.Host = r.In.Host                 // signed
			r.Out.URL.RawQuery = r.In.URL.RawQuery // signed as it was written
			if r.Out.ContentLength != 0 {
				// The gateway may refuse a request before it has read the body, and then
				// takes the rest of the body for further requests. No other client may use
				// this connection.
				r.Out.Close = true //guard:objects/bodies drop
				r.Out.Body = &received{ReadCloser: r.Out.Body}
			}
		},
		Transport:      transport,
		BufferPool:     &buffers{},
		ModifyResponse: presigned,
		ErrorHandler:   func(w http.ResponseWriter, r *http.Request, err error) { failed(w, r, err, log) },
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug), // only disconnected clients
	}
	return httpserver.New(httpserver.Config{Handler: origins.Handler(forward), Connections: connections, Log: log})
}

// gatewayConn is a connection to the gateway, which may respond and close it
// before it has read all of a body. The transport would take that for a failure
// and lose the response, so writes that fail are dropped. Reading reports how
// the connection ended.
type gatewayConn struct{ net.Conn }

// Write writes p, or drops it if the gateway has stopped reading.
func (c gatewayConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return len(p), nil
	}
	return n, err
}

// presigned changes the response to a presigned URL, whose client does not
// speak S3, to the service's 503 if the disk is full.
func presigned(res *http.Response) error {
	if res.StatusCode == http.StatusInsufficientStorage && res.Request.URL.Query().Has("X-Amz-Signature") {
		res.StatusCode, res.Status = http.StatusServiceUnavailable, ""
		res.Header.Set("Retry-After", strconv.Itoa(int(spaceRetryAfter.Seconds())))
	}
	return nil
}

// spaceRetryAfter is the retry delay for a write that failed for lack of disk
// space.
const spaceRetryAfter = 10 * time.Second

// failed responds to a request that did not reach the gateway, or whose body
// did not arrive.
func failed(w http.ResponseWriter, r *http.Request, err error, log *slog.Logger) {
	answer := s3err.GetAPIError(s3err.ErrSlowDown)
	switch {
	case httpserver.TooSlow(r):
		answer = s3err.APIError{
			Code: "RequestTimeout", HTTPStatusCode: http.StatusBadRequest,
			Description: "The body came too slowly: nothing was read from the connection within the timeout period",
		}
	case r.Context().Err() != nil: // the client has disconnected
	case broken(r):
		answer = s3err.GetAPIError(s3err.ErrIncompleteBody)
	default:
		log.Error("object store: request not passed on", "method", r.Method, "error", err)
	}
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("Connection", "close")
	w.WriteHeader(answer.StatusCode())
	_, _ = w.Write(answer.XMLBody("", "")) // the client may have disconnected
}

// received is a body that records whether it arrived whole.
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

// broken reports whether the body of a request could not be read, which is not
// the gateway's fault.
func broken(r *http.Request) bool {
	b, ok := r.Body.(*received)
	return ok && b.broken.Load()
}

// buffers is the pool of buffers for forwarding bodies.
type buffers struct{ pool sync.Pool }

// Get takes a buffer.
func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, copyBuffer)
}

// Put returns a buffer.
func (b *buffers) Put(p []byte) { b.pool.Put(&p) }

// socketPath returns the path of the gateway's socket: in the data directory,
// or, if that path is too long, in a separate directory, which remove removes.
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

// endpoint returns the URL by which clients on this machine reach a listener.
// One on all addresses is reached by loopback.
func endpoint(address net.Addr) string {
	host, port, _ := net.SplitHostPort(address.String())
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return (&url.URL{Scheme: "http", Host: net.JoinHostPort(host, port)}).String()
}
