// Package objectstore serves the S3 protocol from this process, keeping objects
// as plain files, so that the whole service, presigned multipart uploads
// included, runs without a cloud account.
//
// It is versitygw's S3 front on its posix backend. Requests are authenticated
// by Signature Version 4 as on AWS; anonymous, expired and tampered ones are
// answered 403.
package objectstore

import (
	"context"
	"errors"
	"fmt"
	"net"
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
	bindAttempts    = 16
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

	// Space refuses writes when the disk is nearly full; nil never does. Reads and
	// deletions go on.
	Space *space.Space
	// FullSync acknowledges a write when it is on the disk, so that a power cut
	// does not undo it. Deletions may be undone.
	FullSync bool

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
	s := &Server{gate: newGate()}
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
	s.backend = &objects{buckets: buckets, metadata: metadata, space: cfg.Space, pauses: newPauses()}
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
	if err := s.listen(cfg); err != nil {
		return nil, err
	}
	if err := ensureBucket(ctx, s.endpoint, cfg); err != nil {
		return nil, err
	}
	return s, s.backend.durable.made(root, cfg.Bucket)
}

// listen binds and serves. The front binds by itself and does not tell which
// port it got, so a free one is picked first; should another process take it in
// between, the next is tried.
func (s *Server) listen(cfg Config) error {
	listen := cfg.Listen
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		address := listen
		if port == "0" {
			if address, err = freeAddress(listen); err != nil {
				return err
			}
		}
		err := s.serve(cfg, address)
		if err == nil {
			s.endpoint = endpoint(host, address)
			return nil
		}
		if port != "0" || !AddressInUse(err) || attempt == bindAttempts {
			return err
		}
	}
}

func (s *Server) serve(cfg Config, address string) error {
	ready := make(chan struct{})
	opts := []s3api.Option{
		s3api.WithQuiet(),
		s3api.WithKeepAlive(),
		s3api.WithConcurrencyLimiter(maxConnections, maxRequests),
		s3api.WithMpMaxParts(maxParts),
		s3api.WithMiddleware("/", s.gate.pass),
		s3api.WithOnListen(sync.OnceFunc(func() { close(ready) })),
	}
	iam := auth.NewIAMServiceSingle(auth.Account{Access: cfg.AccessKey, Secret: cfg.SecretKey, Role: auth.RoleAdmin})
	root := middlewares.RootUserConfig{Access: cfg.AccessKey, Secret: cfg.SecretKey}
	api, err := s3api.New(s.backend, root, Region, iam, nil, nil, notifier(cfg, s.backend), nil, opts...)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- api.ServeMultiPort([]string{address}) }()
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
	drained := s.gate.close(requestPatience)
	if s.api != nil {
		// What is left are idle connections, which the front waits for up to
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
	if !drained {
		return fmt.Errorf("object store: requests still under way after %s", requestPatience)
	}
	s.backend.Shutdown()
	return os.Chdir(s.workdir)
}

// AddressInUse reports whether an error of [Start] means that something else
// listens there.
func AddressInUse(err error) bool {
	const windows = syscall.Errno(10048) // WSAEADDRINUSE, which EADDRINUSE is not there
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, windows)
}

func freeAddress(listen string) (string, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return "", err
	}
	address := l.Addr().String()
	return address, l.Close()
}

// endpoint is the URL to reach address by; a wildcard host is reached by
// loopback.
func endpoint(host, address string) string {
	_, port, _ := net.SplitHostPort(address)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}
