// Package proc runs other programs: children that end with this process
// ([Start]), among them the embedded server ([Serve]), and programs that stay
// in the background ([Spawn]).
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

// outputPatience is how long a dead program's output may be held open by
// processes that it started and that left its group.
const outputPatience = time.Second

// poll is how often a program that starts or ends is looked at.
const poll = 10 * time.Millisecond

// Child is a program that this process has started.
type Child struct {
	cmd    *exec.Cmd
	output func() string // the last of what it wrote
	exited chan struct{}
	err    error // of the exit, once exited is closed

	mu   sync.Mutex // held while exited is closed and while the tree is killed
	tree tree
}

// Start runs a command with a process tree of its own, which [Child.Kill] ends.
// On Linux and Windows the program dies with this process, however this process
// ends; elsewhere it has to be ended. What it writes goes to log too, unless that
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

// start starts the program, has own take it, unless that is nil, and a goroutine
// wait for its end. Both happen on one operating system thread: the kernel's
// "parent died" is the death of the thread that started the child.
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
			c.err = nil // the program ended well, another holds its output
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.tree.close()
		close(c.exited)
	}()
	return <-started
}

// AwaitReady calls ready until it returns nil. If the program ends first, or is
// not ready in time, the error holds what it wrote, and it is gone afterwards.
// The context that ready gets ends with the program.
func (c *Child) AwaitReady(ctx context.Context, patience time.Duration, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return c.await(ctx, ready, c.Kill)
}

// await is AwaitReady with a way to end a program that is not ready when ctx ends.
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

// Kill kills the program and what it has started, and waits until it is gone.
// More than once is fine.
func (c *Child) Kill() {
	c.mu.Lock()
	select {
	case <-c.exited: // its number may be another's by now
	default:
		c.tree.kill(c.cmd.Process)
	}
	c.mu.Unlock()
	<-c.exited
}

// Stop tells the program to end, by SIGTERM or what Windows has for it, and waits
// until it has. An exit code other than 0 is an error that holds what it wrote.
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

// PID is the number of the process.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Exited is closed when the program is gone.
func (c *Child) Exited() <-chan struct{} { return c.exited }

// Ending tells how the program ended, once it is gone, and what it wrote last.
func (c *Child) Ending() string { return c.cmd.ProcessState.String() + c.said() }

// Output returns the last 16 KiB of what the program wrote.
func (c *Child) Output() string { return c.output() }

// said is the output as the end of a message, "" if there is none.
func (c *Child) said() string {
	if text := strings.TrimSpace(c.output()); text != "" {
		return "; it wrote:\n" + text
	}
	return ""
}

// tailBytes is how much of an output a Tail keeps.
const tailBytes = 16 << 10

// Tail keeps the last of what is written to it. Safe for concurrent use.
type Tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write keeps b and forgets what is too old.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(b)
	t.buf.Next(max(0, t.buf.Len()-tailBytes))
	return len(b), nil
}

// String returns what is kept.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
