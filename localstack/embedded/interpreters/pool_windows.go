package interpreters

import (
	"context"
	"errors"

	"millrace/shared/run/sandbox"
)

// refusal is the error of Python tasks on Windows, where a child can get
// neither the descriptors of the protocol nor the limits that confine it.
const refusal = "the embedded server runs no Python tasks on Windows: run it on Linux or macOS, or in WSL"

// Pool is a sandbox.Sandbox that rejects every task. It is safe for concurrent
// use.
type Pool struct{}

var (
	_ sandbox.Direct            = (*Pool)(nil)
	_ sandbox.Reserver          = (*Pool)(nil)
	_ sandbox.IsolationReporter = (*Pool)(nil)
	_ sandbox.RuntimeReporter   = (*Pool)(nil)
)

// New returns a Pool.
func New(config Config) (*Pool, error) { return &Pool{}, config.complete() }

// Mode returns an error.
func (*Pool) Mode(context.Context) (mode, python string, err error) {
	return "", "", errors.New(refusal)
}

// Isolation implements sandbox.IsolationReporter.
func (*Pool) Isolation(context.Context) (sandbox.Isolation, error) {
	return sandbox.Isolation{}, errors.New(refusal)
}

// Runtime implements sandbox.RuntimeReporter.
func (*Pool) Runtime(context.Context) (sandbox.Runtime, error) {
	return sandbox.Runtime{}, errors.New(refusal)
}

// Reserve implements sandbox.Reserver: an error needs no slot.
func (*Pool) Reserve(context.Context, string) (release func(), err error) { return func() {}, nil }

// Waiting returns "", because tasks never wait.
func (*Pool) Waiting(string) string { return "" }

// Run implements sandbox.Direct: the task fails.
func (*Pool) Run(context.Context, sandbox.Request, func(sandbox.LogEvent)) (sandbox.Result, error) {
	return failed(sandbox.TaskFailedError, refusal), nil
}

// Close implements sandbox.Sandbox.
func (*Pool) Close() error { return nil }

// Undumpable does nothing, because processes of other users cannot read this
// one.
func Undumpable() error { return nil }
