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
	"syscall"
	"time"

	"millrace/shared/run/sandbox"
)

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
	warm    bool            // it has run a task
	spent   bool            // it must not run another
	known   map[string]bool // entrypoints whose functions have begun in it

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
	c := &interpreter{pool: p, key: k, mode: in.mode, known: map[string]bool{}, forked: make(chan struct{}), ended: make(chan struct{})}
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
	s.Mounts, s.Site = in.venv.mounts(c.pool.config.Mounts), in.venv.Site
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
