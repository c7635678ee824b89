package emulators

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"millrace/localstack/child"
)

// startPatience is how long an emulator may take to answer; a JVM on a busy
// machine takes several seconds.
const startPatience = 90 * time.Second

// poll is how often a starting emulator is asked.
const poll = 20 * time.Millisecond

// Process is a running emulator.
type Process struct {
	URL string // http://127.0.0.1:port

	*child.Process
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
	running, err := child.Start(cmd, nil)
	if err != nil {
		return nil, err
	}
	proc := &Process{URL: "http://127.0.0.1:" + port, Process: running}
	if err := proc.wait(ctx, p.ready); err != nil {
		proc.Stop()
		return nil, fmt.Errorf("%w; its output:\n%s", err, proc.Output())
	}
	return proc, nil
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
		case <-p.Exited():
			return fmt.Errorf("it ended before it was ready: %s", p.State())
		case <-ctx.Done():
			return fmt.Errorf("it was not ready in time: %w", err)
		case <-ticker.C:
		}
	}
}

// Stop kills the emulator and what it started, and waits until it is gone. It
// keeps nothing, so there is nothing to end in order. More than once is fine.
func (p *Process) Stop() { p.Kill() }

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), l.Close()
}
