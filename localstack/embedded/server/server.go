// Package server runs the whole service in one process: the catalog's functions
// on the embedded drivers, with the object store, the sign-in, and the runtime
// that invokes functions.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"millrace/functions/catalog"
	"millrace/functions/taskworker"
	"millrace/localstack/embedded/datadir"
	"millrace/localstack/embedded/httpserver"
	"millrace/localstack/embedded/interpreters"
	"millrace/localstack/embedded/localbus"
	"millrace/localstack/embedded/objectstore"
	"millrace/localstack/embedded/pebblequeue"
	"millrace/localstack/embedded/pebbletable"
	"millrace/localstack/embedded/runtime"
	"millrace/localstack/embedded/signin"
	"millrace/localstack/embedded/space"
	"millrace/localstack/embedded/store"
	"millrace/shared/account/quota"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/keyring"
	"millrace/shared/platform/notify"
	"millrace/shared/platform/telemetry"
	"millrace/shared/platform/telemetry/otlp"
	"millrace/shared/platform/vault/keyfile"
	"millrace/shared/run/runlog"
	"millrace/shared/run/tasktype"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// Time limits of a graceful stop.
const (
	requestPatience = 5 * time.Second  // for requests in flight
	runtimePatience = 10 * time.Second // for running tasks and messages
	logPatience     = 5 * time.Second  // for writing logs
)

// outboundHelp describes how tasks of type http and notification channels reach
// addresses that are not public.
const outboundHelp = "start the server with --allow-loopback for this machine, with --allow-range CIDR for a private network"

// bodyMemory is how many bytes the request bodies that are read or worked on have
// together. The largest has four megabytes.
const bodyMemory = 24 << 20

// ErrInUse means that another process serves the data directory.
var ErrInUse = datadir.ErrInUse

// A ConfigError means that the server cannot be as its Config says. Nothing was
// started or changed.
type ConfigError struct{ err error }

// Error returns what is wrong with which field.
func (e *ConfigError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *ConfigError) Unwrap() error { return e.err }

// Server is a server with all its parts. [Server.Serve] starts serving
// requests.
type Server struct {
	cfg         Config
	credentials signin.Credentials
	listener    net.Listener
	http        *httpserver.Server
	runtime     *runtime.Runtime
	deps        fn.Deps
	specs       []fn.Spec
	functions   *functions
	objects     *objectstore.Server
	pool        *interpreters.Pool
	exporter    *otlp.Exporter // of spans; nil: none are exported
	keysMade    time.Time      // when the keys were made that the operator rotates

	dir   *datadir.Dir
	store *store.DB
	space *space.Space

	backingUp sync.Mutex // held while a backup is made

	// closers release what was opened, in reverse order.
	closers []func() error
	serving bool
	stop    sync.Once
}

// Open starts everything except serving requests: it locks the data directory
// (ErrInUse if another process uses it), opens table, queues and object store,
// and creates the credentials on the first start. Errors also: *ConfigError.
func Open(ctx context.Context, cfg Config) (*Server, error) { return open(ctx, cfg, catalog.All()) }

func open(ctx context.Context, cfg Config, specs []fn.Spec) (_ *Server, err error) {
	if err := cfg.complete(); err != nil {
		return nil, &ConfigError{err}
	}
	if cfg.Python != "" {
		if err := interpreters.Check(ctx, cfg.Python); err != nil {
			return nil, &ConfigError{fmt.Errorf("--python: %w", err)}
		}
	}
	s := &Server{cfg: cfg, specs: specs}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.undo())
		}
	}()
	db, err := s.openStore()
	if err != nil {
		return nil, err
	}
	if s.listener, err = listen(cfg.Listen); err != nil {
		return nil, err
	}
	s.closing(func() error { _ = s.listener.Close(); return nil }) // usually closed by Serve

	deps, keys, err := s.platform(ctx, db)
	if err != nil {
		return nil, err
	}
	if err := s.front(deps, keys); err != nil {
		return nil, err
	}
	if s.runtime, err = runtime.New(runtime.Config{Specs: withEventQueues(s.specs), Deps: deps, Workers: s.cfg.Workers}); err != nil {
		return nil, err
	}
	s.deps = deps
	return s, nil
}

// openStore locks the data directory and opens its store.
func (s *Server) openStore() (*store.DB, error) {
	var err error
	if s.dir, err = datadir.Open(s.cfg.Dir, s.cfg.Version); err != nil {
		return nil, err
	}
	s.closing(s.dir.Close)
	if s.dir.Backup != nil {
		if err := s.restored(); err != nil {
			return nil, err
		}
	}
	s.space = space.New(s.cfg.usage, s.cfg.Log)
	if err := s.roomToStart(); err != nil {
		return nil, err
	}
	db, err := store.Open(s.dir.Store(), store.Options{FullSync: s.cfg.FullSync, MustExist: hasSecrets(s.cfg.Dir), Space: s.space, Log: s.cfg.Log})
	if err != nil {
		return nil, err
	}
	s.closing(db.Close)
	s.store = db
	return db, nil
}

// startRoom is the disk space in bytes that a start needs besides that of the
// store's logs, which it rewrites as tables.
const startRoom = 1 << 20

// roomToStart returns an error if the disk has no space to open the store. With
// more than that, but less than the reserve, the server starts and rejects
// writes.
func (s *Server) roomToStart() error {
	free, _, err := s.cfg.usage()
	if err != nil {
		return nil //nolint:nilerr // counts as enough, as later on
	}
	need := uint64(startRoom)
	logs, _ := filepath.Glob(filepath.Join(s.dir.Store(), "*.log")) // fails only for a bad pattern
	for _, path := range logs {
		if info, err := os.Stat(path); err == nil {
			need += uint64(info.Size())
		}
	}
	if free < need {
		return fmt.Errorf("the disk of the data directory %s is full: %d KB are free, and a start takes %d KB: make room there and start again",
			s.cfg.Dir, free>>10, need>>10)
	}
	return nil
}

// restored prepares a server on a backup. The original server may still run, so
// nothing falls due here before --adopt makes this server replace it.
func (s *Server) restored() error {
	if s.cfg.Adopt {
		return s.dir.Adopt()
	}
	s.cfg.NoTick = true
	s.cfg.Log.Warn("the data directory is a backup: nothing falls due here until the server is started with --adopt",
		"of", s.dir.Backup.Of, "at", s.dir.Backup.At)
	return nil
}

// platform opens the dependencies of functions.
func (s *Server) platform(ctx context.Context, db *store.DB) (deps fn.Deps, keys secrets, err error) {
	now := clock.System{}
	deps = fn.Deps{
		Clock: now, Mail: s.cfg.mail, Log: s.cfg.Log, Metrics: telemetry.NewTotals(), Broker: &notify.Broker{},
		Config: fn.Config{
			Version: s.cfg.Version, Region: runtime.Region, LinkURL: baseURL(s.listener.Addr()),
			MaxTaskSecs:   tasktype.ResidentSecs,
			AllowLoopback: s.cfg.AllowLoopback, OutboundHelp: outboundHelp, AllowRanges: s.cfg.AllowRanges,
			ProcessID: ids.Token(6), Exclusive: true, LongLived: true, Bucket: bucket,
		},
	}
	deps.Spans = s.exportSpans()
	items := pebbletable.New(db, now)
	s.closing(sweep("items", items.Sweep, s.cfg.Log))
	deps.Table = items
	deps.Quota = quota.New(quota.Config{Table: items, Clock: now, Log: s.cfg.Log, Values: s.cfg.limits})
	queues, err := pebblequeue.New(ctx, db, now, definitions(s.specs))
	if err != nil {
		return deps, keys, err
	}
	queues.Watch(tellDead(s.cfg.Log))
	s.closing(queues.Close)
	s.closing(sweep("dead letters", queues.Sweep, s.cfg.Log))
	deps.Queues = queues
	deps.Bus = localbus.New(queues, rules(s.specs))

	if keys, err = loadSecrets(s.cfg.Dir); err != nil {
		return deps, keys, err
	}
	s.keysMade = keys.madeAt(s.cfg.Dir)
	if s.credentials, err = signin.EnsureCredentials(ctx, s.cfg.Dir, baseURL(s.listener.Addr()), deps.Table, now); err != nil {
		return deps, keys, fmt.Errorf("credentials: %w", err)
	}
	if deps.Blob, err = s.openObjects(ctx, &keys, queues, deps.Metrics); err != nil {
		return deps, keys, err
	}
	s.closing(sweep("exception traces", expiredTraces(deps.Blob, now), s.cfg.Log))
	logs := &runlog.Store{Table: deps.Table, Blob: deps.Blob, Clock: now, Log: s.cfg.Log, Exclusive: deps.Config.Exclusive, Quota: deps.Quota}
	s.closing(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), logPatience)
		defer cancel()
		return logs.Close(ctx)
	})
	deps.Logs = logs
	if deps.Vault, err = keyfile.Open(filepath.Join(s.cfg.Dir, vaultFile)); err != nil {
		return deps, keys, err
	}
	if deps.Signer, err = openSigner(s.cfg.Dir); err != nil {
		return deps, keys, err
	}
	pool, err := s.openInterpreters(ctx)
	if err != nil {
		return deps, keys, err
	}
	deps.Sandbox, deps.Waiting = pool, s.waiting
	return deps, keys, nil
}

// openInterpreters returns the pool of interpreters. If the machine allows to
// hide them, tasks see neither the data directory nor the home directory.
func (s *Server) openInterpreters(ctx context.Context) (*interpreters.Pool, error) {
	hide := []string{s.cfg.Dir}
	if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
		hide = append(hide, home)
	}
	pool, err := interpreters.New(interpreters.Config{
		Dir: filepath.Join(s.cfg.Dir, "python"), Python: s.cfg.Python, Slots: s.cfg.PythonSlots, Hide: hide, Isolated: s.cfg.Isolated,
		Scratch: s.cfg.PythonScratch, FirstUID: s.cfg.PythonUID, Network: s.cfg.TaskNetwork, Mounts: s.cfg.mounts,
	})
	if err != nil {
		return nil, err
	}
	s.closing(pool.Close)
	s.pool = pool
	return pool, s.requirePython(ctx)
}

// front builds the HTTP server.
func (s *Server) front(deps fn.Deps, keys secrets) error {
	base := baseURL(s.listener.Addr())
	issuer, err := signin.Open(s.cfg.Dir, base, deps.Clock)
	if err != nil {
		return err
	}
	verifier, err := issuer.Verifier()
	if err != nil {
		return err
	}
	issuer.Tell(s.cfg.SignInCode)
	deps.Config.Operator, deps.Config.SignIn = s.credentials.LocalSecret, issuer.Page()
	service, err := catalog.Assemble(s.specs, deps, catalog.Settings{
		SignIn: verifier, SuperAdmins: s.cfg.SuperAdmins, CursorKeys: keyring.Static(keys.CursorKey, keys.PreviousCursorKey), Traces: deps.Blob, Bodies: httpapi.NewBodies(bodyMemory),
		Origins: s.cfg.origins,
	})
	if err != nil {
		return err
	}
	api := service.API()
	s.functions = newFunctions(s, service.Frame, api, deps)
	s.http = httpserver.New(httpserver.Config{
		Handler: routes(api.Handler(), issuer, s.credentials.Keys(), s.functions, s.serveBackup, s.suspendMember, s.switchBackfills, s.serveState), Log: s.cfg.Log,
	})
	return nil
}

// Credentials returns the credentials of the first start, with the current base
// URL.
func (s *Server) Credentials() signin.Credentials { return s.credentials }

// Commits returns the number of commits of table and queues.
func (s *Server) Commits() int64 { return s.store.Commits() }

// Release frees cached memory, for an idle server. It is read again when
// needed.
func (s *Server) Release() { s.store.Release() }

// Serve runs the functions and serves requests until ctx ends, and meanwhile
// reconciles every live run, because the leases of earlier processes are void.
// Then it stops: it accepts no connections and starts no tasks, lets requests
// and tasks in flight finish within their timeouts, and closes everything.
// Unfinished work continues at the next start. Errors: those of a listener or a
// part that failed.
func (s *Server) Serve(ctx context.Context) error {
	s.serving = true
	s.runtime.Start(s.specs, !s.cfg.NoTick)
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(context.WithoutCancel(ctx), s.listener) }()
	stopLooks := recovering(s.deps)
	stopTelling := s.tellingIsolation()
	var err error
	select {
	case err = <-served:
	case <-ctx.Done():
		s.runtime.Drain()
		if s.cfg.Stopping != nil {
			s.cfg.Stopping(s.runtime.Handling(taskworker.Spec.Name))
		}
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	stopLooks()
	stopTelling()
	return errors.Join(err, s.Close())
}

// Close stops a server that does not serve; Serve closes it itself. Further
// calls do nothing.
func (s *Server) Close() (err error) {
	s.stop.Do(func() {
		if !s.serving {
			err = s.undo()
			return
		}
		patient, cancel := context.WithTimeout(context.Background(), requestPatience)
		defer cancel()
		if s.http.Shutdown(patient) != nil {
			_ = s.http.Close() // closes connections still in use
		}
		s.functions.Stop(patient)
		patient, cancel = context.WithTimeout(context.Background(), runtimePatience)
		defer cancel()
		s.runtime.Stop(patient)
		err = s.undo()
	})
	return err
}

// closing registers a function that releases what was just opened.
func (s *Server) closing(close func() error) { s.closers = append(s.closers, close) }

func (s *Server) undo() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	s.closers = nil
	return errors.Join(errs...)
}
