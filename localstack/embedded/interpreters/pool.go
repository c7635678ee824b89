//go:build unix

package interpreters

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"millrace/localstack/embedded/share"
	"millrace/shared/platform/errs"
	"millrace/shared/run/sandbox"
)

var (
	_ sandbox.Direct            = (*Pool)(nil)
	_ sandbox.Reserver          = (*Pool)(nil)
	_ sandbox.IsolationReporter = (*Pool)(nil)
	_ sandbox.RuntimeReporter   = (*Pool)(nil)
	_ sandbox.StartReporter     = (*Pool)(nil)
)

// ErrClosed is returned by Run on a closed Pool.
var ErrClosed = errors.New("the interpreters are closed")

// key determines which tasks may share an interpreter.
type key struct{ workspace, hash, tier string }

// Pool is a sandbox.Sandbox of child processes on this machine. It is safe for
// concurrent use.
type Pool struct {
	config    Config
	artifacts *artifacts
	shared    *share.Slots // Slots of them
	starts    chan func()  // run on the thread whose end would kill the children
	closed    chan struct{}
	clock     ticks

	installing sync.Mutex // held while the first Run looks for Python
	installed  *installation
	temporary  string
	cgroups    *cgroups // nil if the server cannot use any

	mu   sync.Mutex
	idle []*interpreter        // least recently used first
	all  map[*interpreter]bool // idle and busy
}

// New returns a Pool. It starts nothing and does not need Python until the
// first Run.
func New(config Config) (*Pool, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	// Others may traverse the directory, but not list it: children of the plain
	// mode must reach their files.
	if err := os.MkdirAll(config.Dir, 0o711); err != nil {
		return nil, err
	}
	p := &Pool{
		config: config,
		shared: share.New(config.Slots),
		starts: make(chan func()),
		closed: make(chan struct{}),
		all:    make(map[*interpreter]bool),
		clock:  ticks{start: make(chan struct{}, 1)},
	}
	if err := p.sweep(); err != nil {
		return nil, err
	}
	go p.starter()
	go p.tickers()
	return p, nil
}

// sweep removes what an earlier server left behind.
func (p *Pool) sweep() error {
	if err := os.RemoveAll(filepath.Join(p.config.Dir, "scratch")); err != nil {
		return err
	}
	for _, pattern := range []string{".library-*", ".output-*", "artifacts/*/.fetch-*"} {
		left, _ := filepath.Glob(filepath.Join(p.config.Dir, pattern))
		for _, path := range left {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// starter forks on one thread that lives as long as the pool: the kernel sends
// the death signal when the forking thread ends, not the process.
func (p *Pool) starter() {
	runtime.LockOSThread()
	for {
		select {
		case f := <-p.starts:
			f()
		case <-p.closed:
			return
		}
	}
}

// Mode returns how tasks are isolated on this machine (see the package
// documentation) and the version of Python. It starts an interpreter if none
// was started before.
func (p *Pool) Mode(ctx context.Context) (mode, python string, err error) {
	in, err := p.installation(ctx)
	if err != nil {
		return "", "", err
	}
	return in.mode.String(), in.python + " " + in.version, nil
}

// Isolation implements sandbox.IsolationReporter.
func (p *Pool) Isolation(ctx context.Context) (sandbox.Isolation, error) {
	in, err := p.installation(ctx)
	if err != nil {
		return sandbox.Isolation{}, err
	}
	i := sandbox.Isolation{Level: sandbox.IsolatedNamespaces, Detail: "Linux namespaces"}
	if in.mode.name == "plain" {
		i = sandbox.Isolation{Level: sandbox.IsolatedProcesses, Detail: "No namespaces: no boundary between workspaces"}
	}
	users, memory, network := "the server's user", "by sampling", "the network of the host"
	if in.mode.ownUser {
		users = "a user for each slot"
	}
	if in.cgroups != nil {
		memory = "by cgroup v2"
	}
	if p.config.Network == NoNetwork {
		network = "no network"
	}
	i.Detail += "; " + users + "; memory bounded " + memory + "; " + network + "."
	return i, nil
}

// Runtime implements sandbox.RuntimeReporter.
func (p *Pool) Runtime(ctx context.Context) (sandbox.Runtime, error) {
	in, err := p.installation(ctx)
	if err != nil {
		return sandbox.Runtime{}, err
	}
	parts := strings.SplitN(in.version, ".", 3)
	return sandbox.Runtime{Platform: runtime.GOOS + "/" + runtime.GOARCH, Python: strings.Join(parts[:min(2, len(parts))], ".")}, nil
}

func (p *Pool) installation(ctx context.Context) (*installation, error) {
	p.installing.Lock()
	defer p.installing.Unlock()
	if p.installed == nil {
		if p.cgroups == nil {
			p.cgroups = ownCgroups()
		}
		in, err := p.install(ctx)
		if err != nil {
			return nil, err
		}
		p.installed = in
		p.artifacts = &artifacts{root: filepath.Join(in.root, "artifacts"), client: p.config.HTTPClient}
	}
	return p.installed, nil
}

// Reserve implements sandbox.Reserver.
func (p *Pool) Reserve(ctx context.Context, workspace string) (release func(), err error) {
	if err := p.shared.Acquire(ctx, workspace); err != nil {
		return nil, err
	}
	release = sync.OnceFunc(func() { p.shared.Release(workspace) })
	if p.isClosed() {
		release()
		return nil, ErrClosed
	}
	return release, nil
}

// TellsStart implements sandbox.StartReporter.
func (p *Pool) TellsStart() bool { return true }

// Waiting returns, as a sentence, why a task of a workspace gets no slot now,
// or "" if it gets one.
func (p *Pool) Waiting(workspace string) string {
	return p.shared.Why(workspace, "a Python interpreter", "that run tasks at once")
}

// Run implements sandbox.Direct.
func (p *Pool) Run(ctx context.Context, req sandbox.Request, log func(sandbox.LogEvent)) (sandbox.Result, error) {
	if req.Artifact.Hash == "" {
		return failed(sandbox.TaskFailedError, "the flow has no artifact: upload its code to run Python tasks"), nil
	}
	in, err := p.installation(ctx)
	if err != nil {
		return sandbox.Result{}, err
	}
	dir, err := p.artifacts.get(ctx, req.Workspace, req.Artifact)
	if refusal, ok := errors.AsType[*errs.Error](err); ok && refusal.Code == errs.Unprocessable {
		return failed(sandbox.TaskFailedError, "%s", refusal.Details[0].Msg), nil
	}
	if err != nil {
		return sandbox.Result{}, err
	}
	if !req.Reserved {
		release, err := p.Reserve(ctx, req.Workspace)
		if err != nil {
			return sandbox.Result{}, err
		}
		defer release()
	}
	k := key{req.Workspace, req.Artifact.Hash, req.Tier}
	child, err := p.take(ctx, in, k, dir)
	if err != nil {
		return sandbox.Result{}, err
	}
	result, err := child.call(ctx, &req, log)
	if errors.Is(err, errNotDelivered) && child.warm && ctx.Err() == nil {
		// It had died since its last task; this task has not begun.
		child.discard()
		if child, err = p.start(ctx, in, k, dir); err != nil {
			return sandbox.Result{}, err
		}
		result, err = child.call(ctx, &req, log)
	}
	if err != nil || child.spent {
		child.discard()
		return result, err
	}
	p.give(child)
	return result, nil
}

// take returns a warm interpreter or starts one. If all slots are taken, it
// ends the least recently used idle interpreter of the workspace with the most.
func (p *Pool) take(ctx context.Context, in *installation, k key, dir string) (*interpreter, error) {
	p.mu.Lock()
	for i, child := range slices.Backward(p.idle) {
		if child.key == k {
			p.idle = slices.Delete(p.idle, i, i+1)
			p.mu.Unlock()
			if child.wake() {
				child.warm = true
				return child, nil
			}
			child.discard()
			return p.start(ctx, in, k, dir)
		}
	}
	var oldest *interpreter
	// The caller holds a slot, so if all interpreters are alive, one is idle.
	if len(p.all) >= p.config.Slots && len(p.idle) > 0 {
		i := p.spare()
		oldest = p.idle[i]
		p.idle = slices.Delete(p.idle, i, i+1)
	}
	p.mu.Unlock()
	if oldest != nil {
		oldest.discard()
	}
	return p.start(ctx, in, k, dir)
}

// spare returns the index of the idle interpreter to end for another.
func (p *Pool) spare() (spare int) {
	alive := map[string]int{}
	for child := range p.all {
		alive[child.key.workspace]++
	}
	for i, child := range p.idle {
		if alive[child.key.workspace] > alive[p.idle[spare].key.workspace] {
			spare = i
		}
	}
	return spare
}

func (p *Pool) give(child *interpreter) {
	child.rest()
	p.mu.Lock()
	closed := p.isClosed()
	if !closed {
		p.idle = append(p.idle, child)
	}
	p.mu.Unlock()
	if closed {
		child.discard()
	}
}

// forget removes an interpreter from the idle ones. It returns false if it is
// not idle.
func (p *Pool) forget(child *interpreter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.idle, child)
	if i >= 0 {
		p.idle = slices.Delete(p.idle, i, i+1)
	}
	return i >= 0
}

func (p *Pool) isClosed() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

// Close implements sandbox.Sandbox. Running calls end with an error.
func (p *Pool) Close() error {
	p.mu.Lock()
	if !p.isClosed() {
		close(p.closed)
	}
	p.idle = nil
	children := make([]*interpreter, 0, len(p.all))
	for child := range p.all {
		children = append(children, child)
	}
	p.mu.Unlock()
	for _, child := range children {
		child.discard()
	}
	p.installing.Lock()
	defer p.installing.Unlock()
	p.cgroups.close()
	if p.temporary != "" {
		return os.RemoveAll(p.temporary)
	}
	return nil
}
