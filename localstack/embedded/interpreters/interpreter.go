//go:build unix

package interpreters

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"millrace/shared/run/sandbox"
)

// errNotDelivered means that an interpreter never received its request.
var errNotDelivered = errors.New("the interpreter did not take the request")

// interpreter is one child process. It runs one task at a time.
type interpreter struct {
	pool    *Pool
	key     key
	python  string // version
	cmd     *exec.Cmd
	mode    mode
	uid     *ownUID // nil means the server's user
	group   *cgroup
	watch   *watch // set when it is ready
	scratch string
	warm    bool // it has run a task
	spent   bool // it must not run another

	requests *os.File
	answers  *os.File
	waiting  syscall.RawConn // to wait for answers
	reader   *bufio.Reader
	buf      bytes.Buffer // for frames in both directions
	out, err *descriptor

	killing sync.Mutex
	reaped  bool
	forked  chan struct{} // closed when the process was started, or will not be
	running bool          // valid once forked is closed
	ended   chan struct{} // closed when the process is reaped
	once    sync.Once     // discard
	logging sync.Mutex    // one event at a time

	resting sync.Mutex    // guards the fields below; locked before killing
	idle    bool          // it has no task
	rested  time.Duration // time without a task
	frozen  bool          // it is stopped
	unfit   bool          // it must not have another task
}

// start starts an interpreter for a key and waits until it is ready.
func (p *Pool) start(ctx context.Context, in *installation, k key, artifact string) (*interpreter, error) {
	c := &interpreter{pool: p, key: k, mode: in.mode, forked: make(chan struct{}), ended: make(chan struct{})}
	p.mu.Lock()
	closed := p.isClosed()
	if !closed {
		p.all[c] = true
	}
	p.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	err := c.launch(in)
	c.running = err == nil
	close(c.forked)
	if err != nil {
		c.discard()
		return nil, fmt.Errorf("starting the interpreter: %w", err)
	}
	if err := c.prepare(ctx, in, artifact); err != nil {
		c.discard()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("starting the interpreter: %w", err)
	}
	return c, nil
}

func (c *interpreter) launch(in *installation) (err error) {
	parent := filepath.Join(in.root, "scratch")
	if err := os.MkdirAll(parent, 0o711); err != nil {
		return err
	}
	if c.scratch, err = os.MkdirTemp(parent, "t"); err != nil {
		return err
	}
	for _, name := range []string{".millrace", ".millrace/artifact", ".millrace/library"} {
		err = errors.Join(err, os.Mkdir(filepath.Join(c.scratch, name), 0o755))
	}
	// Only the task's user can write there; the mount points belong to the server.
	if err == nil && in.mode.ownUser {
		if c.uid, err = claimUID(c.pool.config.FirstUID); err == nil {
			err = os.Chown(c.scratch, c.uid.id, c.uid.id)
		}
	}
	if err == nil && in.mode.plainUser() {
		endUser(c.uid.id) // processes that a killed server left behind
	}
	if err == nil {
		c.group, err = in.cgroups.group(filepath.Base(c.scratch), c.pool.config.memory(c.key.tier))
	}
	var theirs, ours [4]*os.File // requests, answers, stdout, stderr
	for i := range theirs {
		read, write, e := os.Pipe()
		theirs[i], ours[i] = write, read
		if i == 0 {
			theirs[i], ours[i] = read, write
		}
		err = errors.Join(err, e)
	}
	defer func() {
		for i := range theirs {
			_ = theirs[i].Close()
			if err != nil {
				_ = ours[i].Close()
			}
		}
		if err != nil {
			_ = os.RemoveAll(c.scratch)
		}
	}()
	if err != nil {
		return err
	}
	c.requests, c.answers = ours[0], ours[1]
	c.reader = bufio.NewReaderSize(c.answers, 32<<10)
	if c.waiting, err = c.answers.SyscallConn(); err != nil {
		return err
	}
	if c.out, err = newDescriptor("stdout", "info", ours[2], c.pool.config.Clock); err != nil {
		return err
	}
	if c.err, err = newDescriptor("stderr", "warning", ours[3], c.pool.config.Clock); err != nil {
		return err
	}
	c.cmd = &exec.Cmd{
		Path: in.python, Args: slices.Concat([]string{in.python}, flags, []string{"-c", bootCode, in.library}),
		Env: environment, Dir: "/", Stdout: theirs[2], Stderr: theirs[3],
		ExtraFiles: theirs[:2], SysProcAttr: c.attributes(in.mode),
	}
	if err = c.fork(); err != nil {
		return err
	}
	go c.out.follow()
	go c.err.follow()
	go c.reap()
	return nil
}

// fork starts the process on the pool's thread.
func (c *interpreter) fork() error {
	started := make(chan error, 1)
	select {
	case c.pool.starts <- func() { started <- c.cmd.Start() }:
		return <-started
	case <-c.pool.closed:
		return ErrClosed
	}
}

// prepare sends the setup and waits for the response.
func (c *interpreter) prepare(ctx context.Context, in *installation, artifact string) error {
	stop := context.AfterFunc(ctx, c.kill)
	defer stop()
	timer := time.AfterFunc(startTimeout, c.kill)
	defer timer.Stop()
	s := c.pool.config.setup(in.mode, c.key.tier)
	s.UID, s.GID, s.Artifact, s.Scratch = c.uid.value(), c.uid.value(), artifact, c.scratch
	s.Visible, s.Site = in.venv.visible(), in.venv.Site
	var words []sandbox.LogEvent
	c.out.start(func(sandbox.LogEvent) {})
	c.err.start(func(e sandbox.LogEvent) { words = append(words, e) })
	n := newNonce()
	if err := appendFrame(&c.buf, frameSetup, n, s); err != nil {
		return err
	}
	_, err := c.requests.Write(c.buf.Bytes())
	var kind byte
	var body []byte
	if err == nil {
		var size int64
		if kind, size, err = readHead(c.reader, n); err == nil {
			body, err = readBody(c.reader, size, &c.buf)
		}
	}
	c.out.finish()
	c.err.finish()
	if err != nil {
		err = c.died(err)
		if len(words) > 0 {
			err = fmt.Errorf("%w: %s", err, words[len(words)-1].Message)
		}
		return err
	}
	var r ready
	if err := json.Unmarshal(body, &r); kind != frameReady || err != nil {
		return errProtocol
	}
	if r.Error != "" {
		return errors.New(r.Error)
	}
	c.python = r.Python
	w, err := c.newWatch(in.mode)
	c.killing.Lock() // the pool may be closing
	c.watch = w
	c.killing.Unlock()
	if err != nil {
		return fmt.Errorf("watching it: %w", err)
	}
	return nil
}

// call runs one request. Its errors are those of sandbox.Sandbox.Run.
func (c *interpreter) call(ctx context.Context, req *sandbox.Request, log func(sandbox.LogEvent)) (sandbox.Result, error) {
	timeout := req.Timeout
	if timeout <= 0 {
		timeout = sandbox.DefaultTimeout
	}
	c.buf.Reset()
	n := newNonce()
	importing := c.pool.config.importing
	if err := encodeRequest(&c.buf, n, req, timeout, importing); err != nil {
		return sandbox.Result{}, fmt.Errorf("encoding the request: %w", err)
	}
	sink := func(e sandbox.LogEvent) {
		c.logging.Lock()
		defer c.logging.Unlock()
		log(e)
	}
	c.out.start(sink)
	c.err.start(sink)
	bound := &bound{timeout: timeout, fetching: c.pool.config.fetching, begin: req.Begin, reached: map[string]bool{}}
	bound.timer = time.AfterFunc(importing+grace, func() { bound.late.Store(true); c.kill() })
	defer bound.timer.Stop()
	stop := context.AfterFunc(ctx, c.kill)
	c.watch.begin()
	t := transfer{pool: c.pool, to: c.requests, ended: c.ended, nonce: n, inputs: req.Inputs, outputURL: req.OutputURL, files: req.Files, inline: sandbox.MaxOutputBytes}
	if req.OutputURL != nil {
		t.inline = sandbox.InlineBytes
	}
	result, err := c.exchange(ctx, &t, sink, bound)
	excess := c.watch.end()
	if !stop() {
		c.spent = true // killed, or about to be
	}
	c.out.finish()
	c.err.finish()
	c.shrink()
	c.spent = c.spent || excess != nil
	switch {
	case err == nil:
		return result, nil
	case ctx.Err() != nil:
		return sandbox.Result{}, context.Cause(ctx)
	case excess != nil:
		return sandbox.Result{Failure: excess}, nil
	case bound.late.Load():
		c.spent = true
		switch {
		case bound.reached[reachedFunction]:
		case bound.reached[reachedInputs]:
			return sandbox.Result{}, fmt.Errorf("fetching the task's inputs took longer than %g s", c.pool.config.fetching.Seconds())
		default:
			return failed(sandbox.TaskTimeoutError, "importing the module of %s took longer than the %g s that it has, and was killed",
				req.Entrypoint, importing.Seconds()), nil
		}
		return failed(sandbox.TaskTimeoutError, "the task ran past its timeout_secs (%g) and was killed", timeout.Seconds()), nil
	case errors.Is(err, errRunner):
		return sandbox.Result{}, err
	case errors.Is(err, errNotDelivered):
		return sandbox.Result{}, errors.Join(err, c.died(err))
	}
	err = c.died(err)
	if c.group.outOfMemory() {
		return failed(sandbox.TaskFailedError, "%s", c.pool.config.tooMuchMemory(c.key.tier, "more than all")), nil
	}
	return sandbox.Result{}, err
}

// bound ends an attempt that takes too long, by what it has come to. Each step
// counts once, whatever the task writes.
type bound struct {
	timer    *time.Timer
	late     atomic.Bool
	timeout  time.Duration // of the task's function
	fetching time.Duration // of its inputs
	begin    func(ago time.Duration)
	reached  map[string]bool
}

// reach takes a step that the attempt has come to: its outer time is that of the
// step from then on.
func (b *bound) reach(step string) {
	if b.reached[step] { //guard:sandbox/once false
		return
	}
	b.reached[step] = true
	switch step {
	case reachedInputs:
		b.timer.Reset(b.fetching)
	case reachedFunction:
		b.timer.Reset(b.timeout + grace)
		if b.begin != nil {
			b.begin(0)
		}
	default: // the output is handed over
		b.timer.Reset(uploadTime)
	}
}

// errRunner marks a failure that the runner reported and survived.
var errRunner = errors.New("the sandbox failed")

func (c *interpreter) exchange(ctx context.Context, t *transfer, sink func(sandbox.LogEvent), b *bound) (sandbox.Result, error) {
	if _, err := c.requests.Write(c.buf.Bytes()); err != nil {
		return sandbox.Result{}, errors.Join(errNotDelivered, err)
	}
	var output []byte
	for begun := false; ; begun = true {
		kind, size, err := readHead(c.reader, t.nonce)
		if errors.Is(err, errOtherAttempt) && !begun {
			// It is still busy with an earlier request, whose code has forged an answer.
			err = errors.Join(errNotDelivered, err)
		}
		if err != nil {
			return sandbox.Result{}, err
		}
		if kind == frameSave {
			if err := t.save(ctx, c.reader, size); err != nil {
				return sandbox.Result{}, err
			}
			continue
		}
		buf := &c.buf
		if kind == frameOutput {
			if t.takes(size) {
				if err := t.store(ctx, c.reader, size); err != nil {
					return sandbox.Result{}, err
				}
				continue
			}
			if size > t.inline {
				return sandbox.Result{}, fmt.Errorf("%w: an inline output of %d bytes", errProtocol, size)
			}
			buf = new(bytes.Buffer) // the caller keeps the output
		}
		body, err := readBody(c.reader, size, buf)
		if err != nil {
			return sandbox.Result{}, err
		}
		switch kind {
		case frameEvent:
			event, err := decodeEvent(body, c.pool.config.Clock.Now())
			if err != nil {
				return sandbox.Result{}, err
			}
			sink(event)
		case frameReached:
			if step := string(body); step == reachedInputs || step == reachedFunction {
				b.reach(step)
			}
		case frameOver:
			b.reach("over")
		case frameOutput:
			output = body
		case frameFetch:
			if err := t.fetch(ctx, body); err != nil {
				return sandbox.Result{}, err
			}
		case frameOpen:
			if err := t.open(ctx, body); err != nil {
				return sandbox.Result{}, err
			}
		case frameResult:
			return c.result(body, output, t.stored)
		default:
			return sandbox.Result{}, errProtocol
		}
	}
}

func (c *interpreter) result(body, output []byte, stored int64) (sandbox.Result, error) {
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return sandbox.Result{}, fmt.Errorf("%w: %w", errProtocol, err)
	}
	// Bytes after the answer are not the runner's.
	c.spent = a.Recycle || c.reader.Buffered() > 0
	switch {
	case a.Error != "":
		return sandbox.Result{}, fmt.Errorf("%w: %s", errRunner, a.Error)
	case a.Failure != nil:
		if !slices.Contains(failureTypes, a.Failure.Type) {
			a.Failure.Type = sandbox.TaskFailedError
		}
		f := a.Failure
		f.Message, f.Exception = clip(f.Message, sandbox.MaxFailure), clip(f.Exception, sandbox.MaxException)
		f.Traceback = clip(f.Traceback, sandbox.MaxTraceback+100) // it has cut it, with a mark
		return sandbox.Result{Failure: a.Failure}, nil
	case stored > 0:
		return sandbox.Result{OutputBytes: stored, Uploaded: true}, nil
	}
	if err := sandbox.CheckOutput(output); err != nil { //guard:sandbox/output drop
		c.spent = true // the runner's own outputs are valid
		return failed(sandbox.ArtifactSerializationError, "%v", err), nil
	}
	return sandbox.Result{Output: output, OutputBytes: int64(len(output))}, nil
}

var failureTypes = []string{sandbox.TaskFailedError, sandbox.TaskTimeoutError, sandbox.ArtifactSerializationError}

// shrink frees the memory of a large frame.
func (c *interpreter) shrink() {
	if c.buf.Cap() > 256<<10 {
		c.buf = bytes.Buffer{}
	}
}

// reap waits for the process, kills its group and unblocks a pending read.
func (c *interpreter) reap() {
	c.wait()
	// Its last output is still read; a process that escaped the group may keep the
	// other end open forever.
	_ = c.answers.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	close(c.ended)
}

// kill kills the process and its group.
func (c *interpreter) kill() {
	c.killing.Lock()
	defer c.killing.Unlock()
	if !c.reaped {
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
		_ = c.cmd.Process.Kill()
	}
}

// discard ends the interpreter and removes its resources.
func (c *interpreter) discard() {
	c.once.Do(func() {
		<-c.forked
		if c.running {
			c.kill()
			<-c.ended
			for _, f := range []*os.File{c.requests, c.answers, c.out.file, c.err.file} {
				_ = f.Close()
			}
			c.killing.Lock()
			if c.watch != nil {
				c.watch.close()
			}
			c.killing.Unlock()
			_ = os.RemoveAll(c.scratch)
		}
		c.group.close()
		c.uid.release()
		c.pool.mu.Lock()
		delete(c.pool.all, c)
		c.pool.mu.Unlock()
	})
}

// died ends the interpreter and returns an error that tells how it ended.
func (c *interpreter) died(err error) error {
	exited := !errors.Is(err, errProtocol)
	if exited {
		// Reading failed because it ended or closed its descriptor; wait briefly for
		// the former.
		select {
		case <-c.ended:
		case <-time.After(time.Second):
			exited = false
		}
	}
	c.kill()
	<-c.ended
	if !exited {
		return fmt.Errorf("the interpreter stopped answering: %w", err)
	}
	status, _ := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	signal := syscall.Signal(0)
	switch {
	case status.Signaled():
		signal = status.Signal()
	case c.mode.name == "namespaces" && status.ExitStatus() > 128: // as the first process of the namespace tells it
		signal = syscall.Signal(status.ExitStatus() - 128)
	}
	switch {
	case c.pool.isClosed():
		return ErrClosed
	case signal == syscall.SIGKILL:
		return errors.New("the interpreter died: killed by signal 9 (SIGKILL), by itself or for want of memory")
	case signal != 0:
		return fmt.Errorf("the interpreter died: killed by signal %d (%s)", signal, signalName(signal))
	}
	return fmt.Errorf("the interpreter died: exit status %d", status.ExitStatus())
}

// signalName is a signal's name and what it means.
func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name + ", " + s.String()
	}
	return s.String()
}
