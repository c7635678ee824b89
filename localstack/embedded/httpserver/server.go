package httpserver

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Time-outs for clients.
const (
	headerTime = 10 * time.Second // for the header of a request
	idleTime   = 2 * time.Minute  // for the next request
	readTime   = 20 * time.Second // for readLeast bytes of a body
	readLeast  = 10 << 10
	writeTime  = 30 * time.Second // for the client to accept writeChunk bytes of a response
	writeChunk = 16 << 10
)

// maxHeader is the largest request header in bytes.
const maxHeader = 64 << 10

// Config configures a Server.
type Config struct {
	Handler     http.Handler
	Connections int          // concurrent; 0 means DefaultConnections
	Log         *slog.Logger // of connections closed at the limit, and of panics; nil means slog.Default()

	times times // zero means the package's; tests use shorter ones
}

type times struct {
	header, idle, read, write time.Duration
	quiet, stalled            time.Duration
}

// Server is an HTTP/1.1 server. Create it with New.
type Server struct {
	http  http.Server
	conns *table
}

// New returns a server that does not serve yet.
func New(cfg Config) *Server {
	if cfg.Connections == 0 {
		cfg.Connections = DefaultConnections(1)
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.times == (times{}) {
		cfg.times = times{headerTime, idleTime, readTime, writeTime, quietTime, stalledTime}
	}
	s := &Server{conns: newTable(cfg.Connections, cfg.times, cfg.Log)}
	s.http = http.Server{
		Handler:           progress(cfg.Handler, cfg.times),
		ReadHeaderTimeout: cfg.times.header,
		IdleTimeout:       cfg.times.idle,
		MaxHeaderBytes:    maxHeader,
		ConnState:         s.conns.changed,
		ConnContext:       withConn,
		ErrorLog:          slog.NewLogLogger(cfg.Log.Handler(), slog.LevelError),
	}
	return s
}

// Serve serves connections of l until Shutdown or Close. All requests inherit
// ctx. Errors: http.ErrServerClosed after Shutdown or Close, otherwise the
// listener's.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.http.BaseContext = func(net.Listener) context.Context { return ctx }
	return s.http.Serve(&listener{l, s.conns})
}

// Shutdown stops listening, closes connections without a request and waits for
// requests in flight until ctx ends. Errors: ctx's.
func (s *Server) Shutdown(ctx context.Context) error {
	s.conns.shut()
	return s.http.Shutdown(ctx)
}

// Close closes all connections.
func (s *Server) Close() error { return s.http.Close() }
