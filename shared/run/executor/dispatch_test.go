package executor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/vault"
	"millrace/shared/run/executor"
	"millrace/shared/run/sandbox"
	"millrace/shared/run/sandbox/ticket"
	"millrace/shared/run/tier"
)

// elsewhere is a sandbox that starts runners nobody waits for.
type elsewhere struct {
	got []ticket.Attempt
	err error // of Message
}

func (*elsewhere) Close() error { return nil }

func (e *elsewhere) Dispatch(_ context.Context, _ string, t ticket.Attempt) error {
	e.got = append(e.got, t)
	return nil
}

func (e *elsewhere) Message(_ context.Context, req sandbox.Request) (json.RawMessage, error) {
	if e.err != nil {
		return nil, e.err
	}
	return json.Marshal(req)
}

func (*elsewhere) Answer(answer json.RawMessage, _ string) (sandbox.Result, time.Duration, error) {
	var failure string
	if json.Unmarshal(answer, &failure) == nil {
		return sandbox.Result{}, 0, fmt.Errorf("%w: %s", sandbox.ErrUnavailable, failure)
	}
	return sandbox.Result{Output: answer}, 2 * time.Second, nil
}

// TestTaskOfRemovedTierFails checks the text that its author reads.
func TestTaskOfRemovedTierFails(t *testing.T) {
	t.Parallel()
	p := executor.Python{Sandbox: &elsewhere{}, Tiers: tier.Set{tier.Nano, tier.Small}}
	assert.True(t, p.Serves("small"))
	assert.False(t, p.Serves("large"))
	a, _ := attempt(t, `{"name":"p","type":"python","entrypoint":"flow:main"}`)
	a.Artifact, a.Mode = "org/artifacts/x.zip", "large"
	for _, ended := range []executor.Result{p.Execute(t.Context(), a), func() executor.Result { _, r := p.Request(t.Context(), a); return r }()} {
		assert.Equal(t, executor.SandboxFailed, ended.Failure.Type)
		assert.Equal(t, "the runtime tier large is not available in this deployment, which has nano, small; start a run with one of them", ended.Failure.Message)
	}
}

func TestPythonIsHandedOff(t *testing.T) {
	t.Parallel()
	box := &elsewhere{}
	p := executor.Python{Sandbox: box}
	require.True(t, p.Dispatches())
	assert.False(t, executor.Python{}.Dispatches())
	require.NoError(t, p.Dispatch(t.Context(), "nano", ticket.Attempt{Run: "r"}))
	assert.Equal(t, []ticket.Attempt{{Run: "r"}}, box.got)

	a, _ := attempt(t, `{"name":"p","type":"python","entrypoint":"flow:main","config":{"key":"${{ secrets.token }}"}}`)
	a.Artifact = "org/artifacts/x.zip"
	message, ended := p.Request(t.Context(), a)
	require.Nil(t, ended.Failure)
	assert.Contains(t, string(message), secret, "the runner needs it")

	result, took, err := p.Result(t.Context(), a, json.RawMessage(`{"it is": "`+secret+`"}`))
	require.NoError(t, err)
	assert.Equal(t, 2*time.Second, took)
	assert.JSONEq(t, `{"it is": "***"}`, string(result.Output.JSON))
	result, _, err = p.Result(t.Context(), a, json.RawMessage(`"no artifact"`))
	require.NoError(t, err)
	assert.Contains(t, result.Unstarted, "no artifact")

	box.err = fmt.Errorf("%w: %s", sandbox.ErrUnavailable, secret)
	message, ended = p.Request(t.Context(), a)
	assert.Nil(t, message)
	assert.Equal(t, "the sandbox is not available: ***", ended.Unstarted)

	a.Secret = func(string) (string, error) { return "", vault.ErrUnavailable }
	message, ended = p.Request(t.Context(), a)
	assert.Nil(t, message)
	assert.NotEmpty(t, ended.Unstarted)
	_, _, err = p.Result(t.Context(), a, json.RawMessage(`1`))
	require.ErrorIs(t, err, vault.ErrUnavailable, "it cannot be masked")
}
