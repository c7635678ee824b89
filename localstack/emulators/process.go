package emulators

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"time"

	"millrace/localstack/proc"
)

// startPatience is how long an emulator may take to answer; a JVM on a busy
// machine takes several seconds.
const startPatience = 90 * time.Second

// Process is a running emulator. It stores nothing, so there is no orderly
// stop: Kill ends it.
type Process struct {
	URL string // http://127.0.0.1:port

	*proc.Child
}

// program describes how to run an emulator and how to test that it is ready.
type program struct {
	name    string
	command func(ctx context.Context, port string) (*exec.Cmd, error)
	ready   func(ctx context.Context, url string) error
}

// start runs the program on a free port and waits until it is ready. If another
// process takes the port meanwhile, it tries another one.
func (p program) start(ctx context.Context) (*Process, error) {
	for attempt := 1; ; attempt++ {
		process, err := p.try(ctx)
		if err == nil {
			return process, nil
		}
		if attempt == 3 || !strings.Contains(err.Error(), "in use") {
			return nil, fmt.Errorf("emulators: %s: %w", p.name, err)
		}
	}
}

func (p program) try(ctx context.Context) (*Process, error) {
	address, err := proc.FreeAddress()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	cmd, err := p.command(ctx, port)
	if err != nil {
		return nil, err
	}
	url := "http://" + address
	child, err := proc.Start(cmd, nil)
	if err != nil {
		return nil, err
	}
	return &Process{url, child}, child.AwaitReady(ctx, startPatience, func(ctx context.Context) error { return p.ready(ctx, url) })
}
