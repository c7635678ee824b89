package executor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/shared/kit/outbound"
	"millrace/shared/platform/errs"
	"millrace/shared/run/executor"
	"millrace/shared/run/expr"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/sandbox"
	"millrace/shared/run/tasktype"
)

const secret = "hunter2/hunter2+"

// logged records what an attempt logged.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) text() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines
}

// attempt returns the first attempt of a task given as JSON, with a secret
// named token, a parameter day and an upstream task up.
func attempt(t testing.TB, task string) (*executor.Attempt, *logged) {
	t.Helper()
	flow, err := flowspec.Load([]byte(`{"tasks":[{"name":"up","type":"transform","config":{"expression":"1"}},`+task+`]}`), tasktype.Kinds())
	require.NoError(t, err)
	log := &logged{}
	return &executor.Attempt{
		Org: "org_test", RunID: "01RUN", Flow: "f", Version: "1", Environment: "default", Mode: "nano", TaskRunID: "01RUN-1-1",
		Task: &flow.Tasks[1], Number: 1, Started: time.Now(), Timeout: time.Minute, Artifact: "org_test/artifacts/a#1.zip",
		Params: map[string]json.RawMessage{"day": json.RawMessage(`"monday"`)}, OutputKey: "org_test/runs/01RUN/out/1-1.json",
		Scope: func(_ context.Context, tasks []string) (expr.Scope, error) {
			s := expr.Scope{Params: map[string]any{"day": "monday"}, Tasks: map[string]expr.TaskView{}}
			for _, name := range tasks {
				s.Tasks[name] = expr.TaskView{Output: []any{int64(1), int64(2)}, Status: "SUCCEEDED"}
			}
			return s, nil
		},
		Secret: func(name string) (string, error) {
			if name != "token" {
				return "", errs.New(errs.NotFound, "there is no secret named %s", name)
			}
			return secret, nil
		},
		Log: func(e sandbox.LogEvent) {
			log.mu.Lock()
			defer log.mu.Unlock()
			log.lines = append(log.lines, fmt.Sprint(e.Level, " ", e.Logger, " ", e.Message, string(e.Fields)))
		},
	}, log
}

func httpTask(config string) string {
	return `{"name":"call","type":"http","timeout_secs":60,"depends_on":["up"],"config":` + config + `}`
}

func caller(t testing.TB, loopback bool) executor.HTTP {
	t.Helper()
	c, err := outbound.NewClient(outbound.Policy{Loopback: loopback})
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	return executor.HTTP{Client: c}
}

func index(i int) *int { return &i }
