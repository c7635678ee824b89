package execution_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"millrace/functions/execution"
	"millrace/localstack/proof/localtest"
	"millrace/shared/account/tenant"
	"millrace/shared/run/sandbox"
)

// present is a configured sandbox that must not be called.
type present struct{ sandbox.Sandbox }

func TestAccess(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, execution.Spec)
	env.CheckAccess(t, "backends-list", "/backends", nil)
	env.Do(t, env.User(t, env.A, tenant.Viewer), "GET", "/backends", nil).Require(t, 200)
}

func TestBackendsReportConfiguration(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sandbox   sandbox.Sandbox
		available bool
	}{{nil, false}, {present{}, true}} {
		env := localtest.Open(t, localtest.Options{Sandbox: c.sandbox}, execution.Spec)
		res := env.Do(t, env.A.Key, "GET", "/backends", nil).Require(t, 200)
		names := []string{}
		for i := range res.Items(t) {
			names = append(names, res.String(t, "items", i, "name"))
			want := c.available || i > 0
			assert.Equal(t, want, res.Get(t, "items", i, "available"), "%s", res.Body)
			assert.NotEmpty(t, res.String(t, "items", i, "message"))
		}
		assert.Equal(t, []string{"python", "http", "transform", "wait"}, names)
	}
}

// isolated is a sandbox that returns an isolation or an error.
type isolated struct {
	present
	err error
}

func (i isolated) Isolation(context.Context) (sandbox.Isolation, error) {
	return sandbox.Isolation{Level: sandbox.IsolatedNamespaces, Detail: "no network"}, i.err
}

func (i isolated) Runtime(context.Context) (sandbox.Runtime, error) {
	return sandbox.Runtime{Platform: "linux/arm64", Python: "3.13"}, nil
}

func TestBackendsShowIsolationAndRuntime(t *testing.T) {
	t.Parallel()
	env := localtest.Open(t, localtest.Options{Sandbox: isolated{}}, execution.Spec)
	res := env.Do(t, env.A.Key, "GET", "/backends", nil).Require(t, 200)
	assert.Equal(t, map[string]any{"level": "namespaces", "detail": "no network"}, res.Get(t, "items", 0, "isolation"))
	assert.Nil(t, res.Get(t, "items", 1, "isolation"))
	assert.Equal(t, map[string]any{"platform": "linux/arm64", "python_version": "3.13"}, res.Get(t, "items", 0, "runtime"))
	assert.Nil(t, res.Get(t, "items", 1, "runtime"))

	env = localtest.Open(t, localtest.Options{Sandbox: isolated{err: errors.New("no python3 in /secret/place")}}, execution.Spec)
	res = env.Do(t, env.A.Key, "GET", "/backends", nil).Require(t, 200)
	assert.Equal(t, false, res.Get(t, "items", 0, "available"))
	assert.NotContains(t, string(res.Body), "/secret/place")
}

func TestBackendsListTiers(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, execution.Spec)
	res := env.Do(t, env.Key(t, env.A, "runs.read"), "GET", "/backends", nil).Require(t, 200)
	memory := map[string]any{}
	for _, m := range res.Get(t, "items", 0, "execution_modes").([]any) {
		mode := m.(map[string]any)
		memory[mode["name"].(string)] = mode["memory_mb"]
		assert.Equal(t, mode["name"] == "nano", mode["default"])
	}
	assert.Equal(t, map[string]any{
		"nano": json.Number("256"), "micro": json.Number("512"), "small": json.Number("1024"),
		"medium": json.Number("2048"), "large": json.Number("4096"), "xlarge": json.Number("8192"),
	}, memory)
	assert.Equal(t, json.Number("840"), res.Get(t, "items", 0, "max_timeout_secs"))
}

func TestBackendsReportTimeouts(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, execution.Spec)
	res := env.Do(t, env.A.Key, "GET", "/backends", nil).Require(t, 200)
	held := []any{json.Number("600"), json.Number("840")}
	for i, want := range [][]any{held, held, {json.Number("600"), nil}, {nil, nil}} {
		got := []any{res.Get(t, "items", i, "default_timeout_secs"), res.Get(t, "items", i, "max_timeout_secs")}
		assert.Equal(t, want, got, res.String(t, "items", i, "name"))
	}
}
