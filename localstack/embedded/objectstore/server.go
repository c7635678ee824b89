// Package objectstore serves the S3 protocol from this process, keeping objects
// as plain files, so that the whole service, presigned multipart uploads
// included, runs without a cloud account.
//
// It is versitygw's S3 gateway on its posix backend, behind a server of package
// httpserver, which passes requests on to the gateway by a Unix socket. Requests are authenticated
// by Signature Version 4 as on AWS; anonymous, expired and tampered ones are
// answered 403.
package objectstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3api"
	"github.com/versity/versitygw/s3api/middlewares"

	"millrace/events"
	"millrace/localstack/embedded/httpserver"
	"millrace/localstack/embedded/space"
)

// Folder is where in the data directory objects are kept.
const Folder = "objects"

// Region is what clients sign for.
const Region = "us-east-1"

const (
	maxConnections = 4096
	maxRequests    = 1024
	maxParts       = 10_000  // of one upload, as S3
	copyLimit      = 5 << 30 // bytes, as S3

	requestPatience = 10 * time.Second       // for requests under way when closing
	connPatience    = 200 * time.Millisecond // for idle connections after them
)

// ErrRunning is returned by Start while another server runs in the process.
var ErrRunning = errors.New("an object store already runs in this process")

// Config says what to serve.
type Config struct {
	Dir string // data directory; objects are kept under Dir/objects
	// Listen is host:port; port 0 picks a free one, empty is 127.0.0.1:0.
	// Presigned URLs name the port, so a fixed one keeps them valid over a restart.
	Listen string
	// AccessKey and SecretKey are the only credentials. The caller makes them
	// up for each data directory and keeps them private.
	AccessKey, SecretKey string
	Bucket               string // created when it does not exist

	Connections int // of clients at once; 0: half of what an httpserver.Server has by default

	// Space refuses writes when the disk is nearly full; nil never does. Reads and
	// deletions go on.
	Space *space.Space
	// FullSync acknowledges a write when it is on the disk, so that a power cut
	// does not undo it. Deletions may be undone.
	FullSync bool

	// Log takes what fails in the store, and what the gateway writes to os.Stderr,
	// a variable that it has while it runs; nil: slog.Default().
	Log *slog.Logger

	// OnLost is called with the key of an object that was asked for and is not
	// there (Missing), or whose content is not what was stored (Damaged). May be nil.
	OnLost func(key, why string)

	// OnEvent is called after an object was stored by a put, a copy or a completed
	// upload, or was deleted: before the client has its answer and in its request's
	// goroutine, so it must be quick and safe for concurrent use. May be nil. A
	// process killed in between has done it without a call.
	OnEvent func(events.Object)
	// Wants tells which events of which keys OnEvent is to be called for; nil: all.
	Wants func(event, key string) bool
}

// running guards what the backend makes process-wide: the working directory.
var running atomic.Bool

// Server is a running object store.
type Server struct {
	endpoint string
	workdir  string // to go back to
	backend  *objects
	gate     *gate
	api      *s3api.S3ApiServer
	close    func() error

	front        *httpserver.Server
	transport    *http.Transport // from the front to the gateway
	socket       string          // of the gateway
	removeSocket func() error

	restoreStderr func()
}

// Start serves until Close and returns when requests are answered and the bucket
// exists. ctx covers the start only.
//
// Only one can run per process (ErrRunning otherwise): the backend works with
// relative paths, so the process's working directory is Dir/objects/buckets
// until Close, which restores it. Everything else in the process must use
// absolute paths and give child processes a directory of their own.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.AccessKey == "" || cfg.SecretKey == "" || cfg.Bucket == "" || cfg.Dir == "" {
		return nil, errors.New("object store: directory, bucket, access key and secret key are required")
	}
	if !running.CompareAndSwap(false, true) {
		return nil, ErrRunning
	}
	s, err := start(ctx, cfg)
	if err != nil {
		running.Store(false)
		return nil, fmt.Errorf("object store: %w", err)
	}
	s.close = sync.OnceValue(func() error {
		err := s.shutdown()
		running.Store(err != nil)
		return err
	})
	return s, nil
}

func start(ctx context.Context, cfg Config) (_ *Server, err error) {
	s := &Server{gate: newGate(), removeSocket: func() error { return nil }}
	if s.workdir, err = os.Getwd(); err != nil {
		return nil, err
	}
	root, err := filepath.Abs(filepath.Join(cfg.Dir, Folder))
	if err != nil {
		return nil, err
	}
	buckets := filepath.Join(root, "buckets")
	if err := os.MkdirAll(buckets, 0o700); err != nil {
		return nil, err
	}
	metadata, sidecars, err := openMetadata(root, buckets)
	if err != nil {
		return nil, err
	}
	// The lock file serves several processes on one directory, which the data
	// directory's owner rules out; without it a small put takes a quarter less.
	opts := posix.PosixOpts{CopyObjectThreshold: copyLimit, ForceNoObjLockFile: true}
	opts.SetNewDirPerm(0o700)
	opts.SetNewFilePerm(0o600)
	s.backend = &objects{buckets: buckets, metadata: metadata, sidecars: sidecars != "", space: cfg.Space, pauses: newPauses(), log: cfg.Log, onLost: cfg.OnLost}
	if s.backend.log == nil {
		s.backend.log = slog.Default()
	}
	if cfg.FullSync {
		s.backend.durable = &durable{buckets: buckets, sidecars: sidecars}
		metadata = syncedMetadata{metadata}
	}
	if s.backend.Posix, err = posix.New(buckets, metadata, opts); err != nil {
		return nil, errors.Join(err, os.Chdir(s.workdir))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.shutdown())
		}
	}()
	if s.restoreStderr, err = divertStderr(s.backend.log); err != nil {
		return nil, err
	}
	if err := s.listen(cfg, filepath.Dir(root)); err != nil {
		return nil, err
	}
	if err := ensureBucket(ctx, s.endpoint, cfg); err != nil {
		return nil, err
	}
	return s, s.backend.durable.made(root, cfg.Bucket)
}

// listen binds the address and serves it through the gateway, whose socket is in
// dir.
func (s *Server) listen(cfg Config, dir string) error {
	l, err := net.Listen("tcp", cmp.Or(cfg.Listen, "127.0.0.1:0"))
	if err != nil {
		return err
	}
	if s.socket, s.removeSocket, err = socketPath(dir); err == nil {
		err = s.serveGateway(cfg)
	}
	if err != nil {
		return errors.Join(err, l.Close())
	}
	s.transport = &http.Transport{}
	s.front = newFront(s.socket, s.transport, cmp.Or(cfg.Connections, httpserver.DefaultConnections(2)), s.backend.log)
	s.endpoint = endpoint(l.Addr())
	go func() {
		if err := s.front.Serve(context.Background(), l); !errors.Is(err, http.ErrServerClosed) {
			s.backend.log.Error("object store: no longer listening", "error", err)
		}
	}()
	return nil
}

// serveGateway lets the gateway answer on its socket.
func (s *Server) serveGateway(cfg Config) error {
	ready := make(chan struct{})
	opts := []s3api.Option{
		s3api.WithQuiet(),
		s3api.WithKeepAlive(),
		s3api.WithConcurrencyLimiter(maxConnections, maxRequests),
		s3api.WithMpMaxParts(maxParts),
		s3api.WithMiddleware("/", s.gate.pass),
		s3api.WithMiddleware("/", s.backend.recovered),
		s3api.WithSocketPerm(0o600),
		s3api.WithOnListen(sync.OnceFunc(func() { close(ready) })),
	}
	iam := auth.NewIAMServiceSingle(auth.Account{Access: cfg.AccessKey, Secret: cfg.SecretKey, Role: auth.RoleAdmin})
	root := middlewares.RootUserConfig{Access: cfg.AccessKey, Secret: cfg.SecretKey}
	api, err := s3api.New(s.backend, root, Region, iam, nil, nil, notifier(cfg, s.backend), nil, opts...)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- api.ServeMultiPort([]string{s.socket}) }()
	select {
	case <-ready:
		s.api = api
		return nil
	case err := <-served:
		if err == nil {
			err = errors.New("stopped before it listened")
		}
		return err
	}
}

// Endpoint returns the server's URL, without a trailing slash.
func (s *Server) Endpoint() string { return s.endpoint }

// Close stops serving, waits up to ten seconds for requests under way and
// restores the working directory. Closing again returns the same. After an error
// the process cannot start another: a request may still work in the directory.
func (s *Server) Close() error { return s.close() }

func (s *Server) shutdown() error {
	s.backend.pauses.close()
	patient, cancel := context.WithTimeout(context.Background(), requestPatience)
	defer cancel()
	if s.front != nil {
		if s.front.Shutdown(patient) != nil {
			_ = s.front.Close() // cuts off what is still in flight
		}
		s.transport.CloseIdleConnections()
	}
	// Also what no client waits for any more.
	drained := s.gate.close(patient)
	if s.api != nil {
		// What is left are idle connections, which the gateway waits for up to
		// ten seconds after it closed the listener. Nobody needs them.
		down := make(chan struct{})
		go func() {
			defer close(down)
			_ = s.api.ShutDown()
		}()
		select {
		case <-down:
		case <-time.After(connPatience):
		}
	}
	if s.restoreStderr != nil {
		s.restoreStderr()
	}
	if !drained {
		return fmt.Errorf("object store: requests still under way after %s", requestPatience)
	}
	s.backend.Shutdown()
	return errors.Join(s.removeSocket(), os.Chdir(s.workdir))
}

// AddressInUse reports whether an error of [Start] means that something else
// listens there.
func AddressInUse(err error) bool {
	const windows = syscall.Errno(10048) // WSAEADDRINUSE, which EADDRINUSE is not there
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, windows)
}
