package httpserver

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// How long clients are waited for.
const (
	headerTime = 10 * time.Second // for the header of a request
	idleTime   = 2 * time.Minute  // for another request
	readTime   = 20 * time.Second // for readLeast bytes of a body
	readLeast  = 10 << 10
	writeTime  = 30 * time.Second // for room for writeChunk bytes of an answer
	writeChunk = 16 << 10
)

// maxHeader is how many bytes a request's header may have.
const maxHeader = 64 << 10

// Config says what to serve.
type Config struct {
	Handler     http.Handler
	Connections int          // at once; 0: DefaultConnections
	Log         *slog.Logger // of connections that were closed to make room, and of panics; nil: slog.Default()

	times times // zero: the package's; tests are faster
}

type times struct {
	header, idle, read, write time.Duration
	quiet, stalled            time.Duration
}

// Server serves HTTP/1.1. Make it with New.
type Server struct {
	http  http.Server
	conns *table
}

// New makes a server that does not serve yet.
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

// Serve answers what comes to l until Shutdown or Close. ctx is that of all
// requests. Errors: http.ErrServerClosed after those, else the listener's.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.http.BaseContext = func(net.Listener) context.Context { return ctx }
	return s.http.Serve(&listener{l, s.conns})
}

// Shutdown listens no more, closes the connections without a request and waits for
// requests in flight until ctx ends. Errors: ctx's.
func (s *Server) Shutdown(ctx context.Context) error {
	s.conns.shut()
	return s.http.Shutdown(ctx)
}

// Close cuts off all connections.
func (s *Server) Close() error { return s.http.Close() }
