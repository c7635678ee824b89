package server

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"millrace/localstack/embedded/interpreters"
)

// requirePython returns an error if the configured interpreter or mounts do not
// work, or if tasks must be isolated and cannot be.
func (s *Server) requirePython(ctx context.Context) error {
	if !s.cfg.Isolated && s.cfg.Python == "" && len(s.cfg.mounts) == 0 {
		return nil
	}
	_, err := s.pool.Isolation(ctx)
	switch {
	case err == nil:
		return nil
	case s.cfg.Isolated:
		return fmt.Errorf("--require-isolation: Python tasks cannot be isolated on this machine "+
			"(it takes namespaces: as root with CAP_SYS_ADMIN, or user namespaces): %s", oneLine(err))
	}
	return fmt.Errorf("Python tasks cannot run: %s", oneLine(err))
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// Python describes, for users, the interpreter of Python tasks and whether
// tasks are isolated. It starts an interpreter if none was started before.
func (s *Server) Python(ctx context.Context) (summary string, isolated bool) {
	mode, python, err := s.pool.Mode(ctx)
	if err != nil {
		return "none: " + oneLine(err), false
	}
	isolated = !interpreters.IsPlain(mode)
	apart := "isolated"
	if !isolated {
		apart = "not isolated"
	}
	return fmt.Sprintf("%s, %d slots, %s (%s)", python, cmp.Or(s.cfg.PythonSlots, interpreters.DefaultSlots), apart, mode), isolated
}

// tellingIsolation determines in the background how Python tasks are isolated
// here, which requires starting an interpreter, and logs it, with a warning if
// they are not. The returned function waits until that is done or cancelled.
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
