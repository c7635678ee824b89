package server

import (
	"context"
	"fmt"
	"strings"

	"millrace/localstack/embedded/interpreters"
)

// requireIsolation is an error if Python tasks must be isolated and cannot be.
func (s *Server) requireIsolation(ctx context.Context) error {
	if !s.cfg.Isolated {
		return nil
	}
	if _, _, err := s.pool.Mode(ctx); err != nil {
		return fmt.Errorf("--require-isolation: Python tasks cannot be isolated on this machine "+
			"(it takes namespaces: as root with CAP_SYS_ADMIN, or user namespaces): %s",
			strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

// tellingIsolation begins to find out how Python tasks are kept apart here, which
// takes the start of an interpreter, and logs it: a warning where they are not. The
// function it returns waits until that is done, or given up.
func (s *Server) tellingIsolation() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		mode, python, err := s.pool.Mode(ctx)
		switch {
		case ctx.Err() != nil && err != nil:
		case err != nil:
			s.cfg.Log.Info("Python tasks cannot run", "error", err)
		case mode == interpreters.Plain:
			s.cfg.Log.Warn("Python tasks are not isolated: they run as the server's user and can read credentials.json, so any task can act as any user; "+
				"run your own code only, or start the server with --require-isolation", "mode", mode)
		case mode == interpreters.PlainOwnUsers:
			s.cfg.Log.Warn("Python tasks are not isolated: those of different workspaces see each other's processes and what they write to /tmp; "+
				"run your own code only, or start the server with --require-isolation", "mode", mode)
		default:
			s.cfg.Log.Info("Python tasks are isolated", "mode", mode, "python", python)
		}
	}()
	return func() { cancel(); <-done }
}
