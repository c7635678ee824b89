package execution

import (
	"context"
	"log/slog"

	"millrace/shared/run/flowspec"
	"millrace/shared/run/sandbox"
	"millrace/shared/run/tasktype"
	"millrace/shared/run/tier"
	"millrace/shared/web/httpapi"
)

// service describes what executes tasks.
type service struct {
	sandbox sandbox.Sandbox // nil: none is configured
	log     *slog.Logger
	held    int // longest time in seconds that a task may occupy a worker, see fn.Config.MaxTaskSecs
	tiers   tier.Set
}

// list lists the executors, one for each task type, and whether the deployment
// has them.
func (s *service) list(ctx context.Context, _ *httpapi.None) (httpapi.Items[Backend], error) {
	var out httpapi.Items[Backend]
	for _, t := range tasktype.Within(s.held) {
		b := Backend{
			Name: t.Name, Kind: "builtin", TaskTypes: []string{t.Name}, Available: true, Message: t.Doc,
			ExecutionModes: []ExecutionMode{}, DefaultTimeout: bound(t.DefaultTimeoutSecs), MaxTimeout: bound(t.MaxTimeoutSecs),
		}
		if t.Tiered {
			b.ExecutionModes = modes(s.tiers)
		}
		if t.Sandboxed {
			s.sandboxed(ctx, &b)
		}
		out.Items = append(out.Items, b)
	}
	return out, nil
}

// sandboxed reports, for an executor that needs the sandbox, whether there is
// one and how it isolates tasks.
func (s *service) sandboxed(ctx context.Context, b *Backend) {
	b.Kind = "sandbox"
	if s.sandbox == nil {
		b.Available, b.Message = false, "No sandbox is configured in this deployment."
		return
	}
	box, ok := s.sandbox.(sandbox.IsolationReporter)
	if !ok {
		return
	}
	i, err := box.Isolation(ctx)
	if err != nil {
		s.log.WarnContext(ctx, "sandboxed tasks cannot run", "executor", b.Name, "error", err)
		b.Available, b.Message = false, "No Python interpreter can be started; the service's log says why."
		return
	}
	b.Isolation = &Isolation{Level: i.Level, Detail: i.Detail}
	if box, ok := s.sandbox.(sandbox.RuntimeReporter); ok {
		if r, err := box.Runtime(ctx); err == nil { // it runs tasks; otherwise Isolation has failed
			b.Runtime = &Runtime{Platform: r.Platform, Python: r.Python}
		}
	}
}

// modes describes runtime tiers, smallest first.
func modes(tiers tier.Set) []ExecutionMode {
	var out []ExecutionMode
	for _, t := range tiers.All() {
		out = append(out, ExecutionMode{Name: string(t), MemoryMB: t.MemoryMB(), Default: t == tier.Default})
	}
	return out
}

// bound returns a limit in seconds, nil for the longest time of any flow.
func bound(secs int) *int {
	if secs >= flowspec.MaxFlowTimeout {
		return nil
	}
	return &secs
}
