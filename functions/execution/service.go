package execution

import (
	"context"
	"log/slog"
	"time"

	"millrace/shared/run/sandbox"
	"millrace/shared/run/tier"
	"millrace/shared/web/httpapi"
)

// service tells what tasks run on.
type service struct {
	sandbox sandbox.Sandbox // nil: none is configured
	log     *slog.Logger
}

// list lists the executors, and which of them the deployment has.
func (s *service) list(ctx context.Context, _ *httpapi.None) (httpapi.Items[Backend], error) {
	python := Backend{
		Name: "python", Kind: "sandbox", TaskTypes: []string{"python"},
		Available: s.sandbox != nil, Message: "Runs functions of the uploaded artifact.",
		ExecutionModes: []ExecutionMode{},
		DefaultTimeout: seconds(sandbox.DefaultTimeout), MaxTimeout: seconds(maxTimeout),
	}
	if !python.Available {
		python.Message = "No sandbox is configured in this deployment."
	}
	if box, ok := s.sandbox.(sandbox.Isolating); ok {
		i, err := box.Isolation(ctx)
		if err == nil {
			python.Isolation = &Isolation{Level: i.Level, Detail: i.Detail}
		} else {
			s.log.WarnContext(ctx, "Python tasks cannot run", "error", err)
			python.Available, python.Message = false, "No Python interpreter can be started; the service's log says why."
		}
	}
	for _, t := range tier.All() {
		python.ExecutionModes = append(python.ExecutionModes, ExecutionMode{
			Name: string(t), MemoryMB: t.MemoryMB(), Default: t == tier.Default,
		})
	}
	return httpapi.Items[Backend]{Items: []Backend{
		python,
		{
			Name: "http", Kind: "builtin", TaskTypes: []string{"http"}, Available: true,
			Message: "Makes an HTTP request.", ExecutionModes: []ExecutionMode{},
			DefaultTimeout: seconds(sandbox.DefaultTimeout), MaxTimeout: seconds(maxTimeout),
		},
		{
			Name: "transform", Kind: "builtin", TaskTypes: []string{"transform"}, Available: true,
			Message: "Evaluates a CEL expression.", ExecutionModes: []ExecutionMode{},
		},
		{
			Name: "wait", Kind: "builtin", TaskTypes: []string{"wait"}, Available: true,
			Message: "Waits without holding a worker.", ExecutionModes: []ExecutionMode{},
		},
	}}, nil
}

func seconds(d time.Duration) *int { return new(int(d / time.Second)) }
