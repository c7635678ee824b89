package emulators

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// startPatience is how long an emulator may take to answer; a JVM on a busy
// machine takes several seconds.
const startPatience = 90 * time.Second

// poll is how often a starting emulator is asked.
const poll = 20 * time.Millisecond

// Process is a running emulator.
type Process struct {
	URL string // http://127.0.0.1:port

	name   string
	cmd    *exec.Cmd
	output tail
	exited chan struct{}
}

// program says how to run an emulator and how to tell that it is ready.
type program struct {
	name    string
	command func(ctx context.Context, port string) (*exec.Cmd, error)
	ready   func(ctx context.Context, url string) error
}

// start runs the program on a free port and waits until it is ready. A port
// that somebody takes between its choice and its use is chosen anew.
func (p program) start(ctx context.Context) (*Process, error) {
	for attempt := 1; ; attempt++ {
		proc, err := p.try(ctx)
		if err == nil {
			return proc, nil
		}
		if attempt == 3 || !strings.Contains(err.Error(), "in use") {
			return nil, fmt.Errorf("emulators: %s: %w", p.name, err)
		}
	}
}

func (p program) try(ctx context.Context) (*Process, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	cmd, err := p.command(ctx, port)
	if err != nil {
		return nil, err
	}
	proc := &Process{URL: "http://127.0.0.1:" + port, name: p.name, cmd: cmd, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &proc.output, &proc.output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	if err := proc.run(); err != nil {
		return nil, err
	}
	if err := proc.wait(ctx, p.ready); err != nil {
		proc.Stop()
		return nil, fmt.Errorf("%w; its output:\n%s", err, &proc.output)
	}
	return proc, nil
}

// run starts the command and waits for its end on one operating system thread:
// the kernel's "parent died" is the death of the thread that started the child.
func (p *Process) run() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // its state says how it ended
			close(p.exited)
		}
	}()
	return <-started
}

// wait asks until the emulator is ready, has ended, or patience has.
func (p *Process) wait(ctx context.Context, ready func(ctx context.Context, url string) error) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		err := ready(ctx, p.URL)
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("it ended before it was ready: %s", p.cmd.ProcessState)
		case <-ctx.Done():
			return fmt.Errorf("it was not ready in time: %w", err)
		case <-ticker.C:
		}
	}
}

// Stop kills the emulator and what it started, and waits until it is gone. It
// keeps nothing, so there is nothing to end in order. More than once is fine.
func (p *Process) Stop() {
	select {
	case <-p.exited: // its number may be another's by now
		return
	default:
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.exited
}

// Exited is closed when the emulator is gone.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Output returns the last of what the emulator wrote.
func (p *Process) Output() string { return p.output.String() }

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), l.Close()
}

// tailBytes is how much of an emulator's output is kept.
const tailBytes = 16 << 10

// tail keeps the last of what is written to it. Safe for concurrent use.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write keeps b and forgets what is too old.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(b)
	t.buf.Next(max(0, t.buf.Len()-tailBytes))
	return len(b), nil
}

// String returns what is kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
