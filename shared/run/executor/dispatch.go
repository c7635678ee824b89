package executor

import (
	"context"
	"encoding/json"
	"time"

	"millrace/shared/run/sandbox"
	"millrace/shared/run/sandbox/ticket"
	"millrace/shared/run/tier"
)

var _ Dispatcher = Python{}

// Dispatches reports whether the sandbox starts runners that nobody waits for.
func (p Python) Dispatches() bool {
	_, ok := p.Sandbox.(sandbox.Dispatcher)
	return ok
}

// Serves reports whether the deployment has a runtime tier.
func (p Python) Serves(mode string) bool { return p.Tiers.Has(tier.Tier(mode)) }

// Dispatch implements [Dispatcher].
func (p Python) Dispatch(ctx context.Context, mode string, attempt ticket.Attempt) error {
	return p.Sandbox.(sandbox.Dispatcher).Dispatch(ctx, mode, attempt)
}

// Request implements [Dispatcher].
func (p Python) Request(ctx context.Context, a *Attempt) (message json.RawMessage, ended Result) {
	ended = Masked(ctx, p.Blob, a, func(ctx context.Context, a *Attempt) Result {
		made := &links{}
		req, failed := p.prepare(ctx, a, made)
		if failed != nil {
			return *failed
		}
		var err error
		if message, err = p.Sandbox.(sandbox.Dispatcher).Message(ctx, req); err != nil {
			return p.conclude(ctx, a, sandbox.Result{}, err, made)
		}
		return Result{}
	})
	return message, ended
}

// Result implements [Dispatcher].
func (p Python) Result(ctx context.Context, a *Attempt, answer json.RawMessage) (result Result, took time.Duration, err error) {
	result = Masked(ctx, p.Blob, a, func(ctx context.Context, a *Attempt) Result {
		// What was masked in the lines of the task is masked in its output too.
		if _, unresolved := a.secrets(); unresolved != nil && !permanent(unresolved) {
			err = unresolved
			return Result{}
		}
		given, lasted, failed := p.Sandbox.(sandbox.Dispatcher).Answer(answer, a.Mode)
		took = lasted
		return p.conclude(ctx, a, given, failed, &links{})
	})
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return result, took, err
}
