// Package proc runs other programs: children that end with this process
// ([Start]), among them the embedded server ([Serve]), and background programs
// ([Spawn]).
package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// outputPatience is how long the output of a dead program may be held open by
// processes that it started and that left its process group.
const outputPatience = time.Second

// poll is the interval for checking a program that starts or ends.
const poll = 10 * time.Millisecond

// Child is a program started by this process.
type Child struct {
	cmd    *exec.Cmd
	output func() string // the end of its output
	exited chan struct{}
	err    error // of the exit; valid once exited is closed

	mu   sync.Mutex // held while exited is closed and while the tree is killed
	tree tree
}

// Start starts a command with its own process tree, which [Child.Kill] kills.
// On Linux and Windows the program dies with this process, however this process
// ends; elsewhere it must be killed. Its output also goes to log, unless that
// is nil; cmd's own outputs are not used.
func Start(cmd *exec.Cmd, log io.Writer) (*Child, error) {
	kept := &Tail{}
	c := &Child{cmd: cmd, output: kept.String}
	var out io.Writer = kept
	if log != nil {
		out = io.MultiWriter(kept, log)
	}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = outputPatience
	cmd.SysProcAttr = childAttributes()
	if err := c.start(newTree); err != nil {
		return nil, err
	}
	return c, nil
}

// start starts the program, passes it to own, unless that is nil, and waits for
// its end in a goroutine. Both happen on one operating system thread, because
// the kernel's parent-death signal refers to the thread that started the child.
func (c *Child) start(own func(*os.Process) tree) error {
	c.exited = make(chan struct{})
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		if err == nil && own != nil {
			c.tree = own(c.cmd.Process)
		}
		started <- err
		if err != nil {
			return
		}
		if c.err = c.cmd.Wait(); errors.Is(c.err, exec.ErrWaitDelay) {
			c.err = nil // the program succeeded; another process holds its output
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.tree.close()
		close(c.exited)
	}()
	return <-started
}

// AwaitReady calls ready until it returns nil. If the program ends first, or is
// not ready in time, it is killed and the error contains its output. The
// context of ready ends with the program.
func (c *Child) AwaitReady(ctx context.Context, patience time.Duration, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return c.await(ctx, ready, c.Kill)
}

// await is AwaitReady with a function that ends a program which is not ready
// when ctx ends.
func (c *Child) await(ctx context.Context, ready func(context.Context) error, end func()) error {
	alive, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.exited:
			cancel()
		case <-alive.Done():
		}
	}()
	for {
		err := ready(alive)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(poll):
			continue
		case <-alive.Done():
		}
		select {
		case <-c.exited:
			return fmt.Errorf("it ended before it was ready: %s", c.Ending())
		default:
		}
		end()
		return fmt.Errorf("it was not ready in time: %w: %w%s", context.Cause(ctx), err, c.said())
	}
}

// Kill kills the program and the processes it has started, and waits for its
// end. Further calls do nothing.
func (c *Child) Kill() {
	c.mu.Lock()
	select {
	case <-c.exited: // its process id may have been reused
	default:
		c.tree.kill(c.cmd.Process)
	}
	c.mu.Unlock()
	<-c.exited
}

// Stop terminates the program, with SIGTERM or its counterpart on Windows, and
// waits for its end. An exit code other than 0 is an error that contains its
// output.
func (c *Child) Stop() error {
	if err := terminate(c.cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-c.exited
	if c.err != nil {
		return fmt.Errorf("%w%s", c.err, c.said())
	}
	return nil
}

// PID returns the process id.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Exited returns a channel that is closed when the program has ended.
func (c *Child) Exited() <-chan struct{} { return c.exited }

// Ending describes how the program ended, with the end of its output. The
// program must have ended.
func (c *Child) Ending() string { return c.cmd.ProcessState.String() + c.said() }

// Output returns the last 16 KiB of what the program wrote.
func (c *Child) Output() string { return c.output() }

// said returns the output as the end of a message, "" if there is none.
func (c *Child) said() string {
	if text := strings.TrimSpace(c.output()); text != "" {
		return "; it wrote:\n" + text
	}
	return ""
}

// tailBytes is the size of a Tail in bytes.
const tailBytes = 16 << 10

// Tail keeps the last bytes that are written to it. It is safe for concurrent
// use.
type Tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends b and drops the oldest bytes.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(b)
	t.buf.Next(max(0, t.buf.Len()-tailBytes))
	return len(b), nil
}

// String returns the kept bytes.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
