// Package objectstore serves the S3 protocol from this process and stores
// objects as plain files, so that the whole service, including presigned
// multipart uploads, runs without a cloud account.
//
// It is versitygw's S3 gateway on its posix backend, behind a server of package
// httpserver, which forwards requests to the gateway through a Unix socket.
// Requests are authenticated by Signature Version 4 as on AWS; anonymous,
// expired and forged ones are answered with 403.
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
	"millrace/shared/web/cors"
)

// Folder is the folder of objects in the data directory.
const Folder = "objects"

// Region is the region that clients use for signing.
const Region = "us-east-1"

const (
	maxConnections = 4096
	maxRequests    = 1024
	maxParts       = 10_000  // of one upload, as in S3
	copyLimit      = 5 << 30 // bytes, as in S3

	requestPatience = 10 * time.Second       // for requests in flight when closing
	connPatience    = 200 * time.Millisecond // for idle connections after that
)

// ErrRunning is returned by Start if another server runs in the process.
var ErrRunning = errors.New("an object store already runs in this process")

// Config configures a Server.
type Config struct {
	Dir string // data directory; objects are stored under Dir/objects
	// Listen is host:port; port 0 means a free one, empty means 127.0.0.1:0.
	// Presigned URLs contain the port, so a fixed one keeps them valid after a
	// restart.
	Listen string
	// AccessKey and SecretKey are the credentials of all buckets. The caller
	// generates them for each data directory and keeps them private.
	AccessKey, SecretKey string
	Bucket               string // created if it does not exist
	// UserKey and UserSecret are the credentials of users, who create buckets and
	// reach these only; empty: there are none.
	UserKey, UserSecret string

	Origins cors.Origins // of web pages that may use presigned URLs

	Connections int // concurrent, of clients; 0 means half of the default of an httpserver.Server

	// Space rejects writes when the disk is nearly full; reads and deletions
	// continue. Nil never rejects.
	Space *space.Space
	// FullSync acknowledges a write only when it is on disk, so that a power cut
	// does not undo it. Deletions may be undone.
	FullSync bool

	// Log receives failures of the store, and what the gateway writes to
	// os.Stderr, which is redirected while it runs; nil means slog.Default().
	Log *slog.Logger

	// OnLost is called with the key of a requested object that does not exist
	// (Missing), or whose content is not what was stored (Damaged). It may be nil.
	OnLost func(key, why string)

	// OnEvent is called after an object was stored by a put, a copy or a completed
	// upload, or was deleted. It is called before the client gets the response, in
	// the request's goroutine, so it must be fast and safe for concurrent use. It
	// may be nil. If the process is killed before the call, the event is lost.
	OnEvent func(events.Object)
	// Wants reports whether OnEvent is to be called for an event of a key in a
	// bucket; nil means all.
	Wants func(bucket, event, key string) bool
}

// running guards process-wide state of the backend: the working directory.
var running atomic.Bool

// Server is a running object store.
type Server struct {
	endpoint string
	workdir  string // to return to
	backend  *objects
	gate     *gate
	api      *s3api.S3ApiServer
	close    func() error

	front        *httpserver.Server
	transport    *http.Transport // of the front, to the gateway
	socket       string          // of the gateway
	removeSocket func() error

	restoreStderr func()
}

// Start starts a server and returns when it serves and the bucket exists. ctx
// covers only the start.
//
// Only one server can run per process (ErrRunning otherwise): the backend uses
// relative paths, so the process's working directory is Dir/objects/buckets
// until Close, which restores it. Everything else in the process must use
// absolute paths and set the working directory of child processes.
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
	// The lock file is for several processes on one directory, which the data
	// directory's lock excludes; without it a small put takes a quarter less time.
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

// listen binds the address and serves it through the gateway, whose socket is
// in dir.
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
	s.front = newFront(s.socket, s.transport, cfg.Origins, cmp.Or(cfg.Connections, httpserver.DefaultConnections(2)), s.backend.log)
	s.endpoint = endpoint(l.Addr())
	go func() {
		if err := s.front.Serve(context.Background(), l); !errors.Is(err, http.ErrServerClosed) {
			s.backend.log.Error("object store: no longer listening", "error", err)
		}
	}()
	return nil
}

// serveGateway serves the gateway on its socket.
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
	iam := accounts{auth.NewIAMServiceSingle(auth.Account{Access: cfg.AccessKey, Secret: cfg.SecretKey, Role: auth.RoleAdmin}), cfg.UserKey, cfg.UserSecret}
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

// Endpoint returns the server's URL without a trailing slash.
func (s *Server) Endpoint() string { return s.endpoint }

// Close stops serving, waits up to ten seconds for requests in flight and
// restores the working directory. Further calls return the same error. After an
// error the process cannot start another server, because a request may still
// use the directory.
func (s *Server) Close() error { return s.close() }

func (s *Server) shutdown() error {
	s.backend.pauses.close()
	patient, cancel := context.WithTimeout(context.Background(), requestPatience)
	defer cancel()
	if s.front != nil {
		if s.front.Shutdown(patient) != nil {
			_ = s.front.Close() // closes connections still in use
		}
		s.transport.CloseIdleConnections()
	}
	// Also requests whose clients have disconnected.
	drained := s.gate.close(patient)
	if s.api != nil {
		// Only idle connections are left, for which the gateway would wait up to ten
		// seconds after it closed the listener.
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

// AddressInUse reports whether an error of [Start] means that the address is in
// use.
func AddressInUse(err error) bool {
	const windows = syscall.Errno(10048) // WSAEADDRINUSE, which differs from EADDRINUSE
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, windows)
}
