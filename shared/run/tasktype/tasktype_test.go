package tasktype_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/run/flowspec"
	"millrace/shared/run/sandbox"
	"millrace/shared/run/tasktype"
)

func TestEachTypeIsComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, typ := range tasktype.All() {
		require.Regexp(t, `^[a-z][a-z_]*$`, typ.Name)
		assert.False(t, seen[typ.Name], "%s is there twice", typ.Name)
		seen[typ.Name] = true

		assert.Positive(t, typ.DefaultTimeoutSecs, typ.Name)
		assert.GreaterOrEqual(t, typ.MaxTimeoutSecs, typ.DefaultTimeoutSecs, typ.Name)
		assert.LessOrEqual(t, typ.MaxTimeoutSecs, flowspec.MaxFlowTimeout, typ.Name)
		assert.True(t, strings.HasSuffix(typ.Doc, "."), "%s has no sentence: %q", typ.Name, typ.Doc)
		assert.Equal(t, typ.NeedsConfig, typ.CheckConfig != nil, "%s: a config that a task needs is checked", typ.Name)
		if typ.NeedsConfig {
			assert.NotEmpty(t, typ.Config, typ.Name)
		}
		assert.Equal(t, typ.Sandboxed, typ.NeedsEntrypoint, "%s: user code is named by an entrypoint", typ.Name)

		found, ok := tasktype.Find(typ.Name)
		require.True(t, ok)
		assert.Equal(t, typ.Doc, found.Doc)
		assert.Equal(t, typ.Name, tasktype.Kinds()[typ.Name].Name)
		assert.Contains(t, tasktype.Markdown(), "| `"+typ.Name+"` | "+typ.Doc)
	}
	_, ok := tasktype.Find("spark")
	assert.False(t, ok)
	assert.Len(t, tasktype.Kinds(), len(seen))
}

// The sandbox has the same default for a request without a time-out.
func TestSandboxTimeoutIsThatOfTasks(t *testing.T) {
	t.Parallel()
	assert.Equal(t, sandbox.DefaultTimeout, flowspec.DefaultTimeoutSecs*time.Second)
}

// A config that reads a secret is rejected if its type does not allow secrets.
func TestSecretsInConfig(t *testing.T) {
	t.Parallel()
	configs := map[string]string{
		"python":    `"entrypoint":"m:f","config":{"token":"${{ secrets.token }}"}`,
		"http":      `"config":{"url":"https://example.com","headers":{"Authorization":"${{ secrets.token }}"}}`,
		"transform": `"config":{"expression":"secrets.token"}`,
		"wait":      `"config":{"seconds":"${{ secrets.token }}"}`,
	}
	for _, typ := range tasktype.All() {
		require.Contains(t, configs, typ.Name)
		_, faults := flowspec.Parse(t.Context(), []byte(`{"tasks":[{"name":"a","type":"`+typ.Name+`",`+configs[typ.Name]+`}]}`), tasktype.Kinds())
		if typ.Secrets {
			assert.Empty(t, faults, typ.Name)
			continue
		}
		require.Len(t, faults, 1, typ.Name)
		assert.Equal(t, "expression_error", faults[0].Type)
		assert.Equal(t, "config", faults[0].Loc[4])
	}
}

// TestTimeoutLimitOfDeployment checks that the timeout of a task that occupies
// a worker is limited by the deployment, and that the error names the limit.
func TestTimeoutLimitOfDeployment(t *testing.T) {
	t.Parallel()
	for held, want := range map[int]string{0: "840", tasktype.ResidentSecs: "86400"} {
		for kind, more := range map[string]string{"python": `"entrypoint":"m:f"`, "http": `"config":{"url":"https://example.com"}`} {
			spec := func(secs string) []byte {
				return []byte(`{"tasks":[{"name":"a","type":"` + kind + `",` + more + `,"timeout_secs":` + secs + `}]}`)
			}
			_, faults := flowspec.Parse(t.Context(), spec(want), tasktype.KindsWithin(held, nil))
			assert.Empty(t, faults)
			_, faults = flowspec.Parse(t.Context(), spec(want+"0"), tasktype.KindsWithin(held, nil))
			require.Len(t, faults, 1)
			assert.Equal(t, "timeout_secs must be from 1 to "+want, faults[0].Msg)
		}
	}
	for _, typ := range tasktype.Within(tasktype.ResidentSecs) {
		if found, _ := tasktype.Find(typ.Name); !typ.OccupiesWorker {
			assert.Equal(t, found.MaxTimeoutSecs, typ.MaxTimeoutSecs, typ.Name)
		}
	}
}
