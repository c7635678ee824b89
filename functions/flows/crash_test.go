package flows_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/table"
	"millrace/shared/run/registry/registrytest"
)

func registrytestWrap(into **registrytest.Faults) func(table.Table) table.Table {
	return func(t table.Table) table.Table {
		*into = registrytest.Wrap(t)
		return *into
	}
}

func actions(t *testing.T, env *localtest.Env, action, kind string) (n int) {
	t.Helper()
	for _, r := range env.Audit(t, env.A.OrgID) {
		if r.Action == action && r.ResourceType == kind {
			n++
		}
	}
	return n
}

func TestRegistrationSurvivesCrashAtEveryWrite(t *testing.T) {
	t.Parallel()
	crash(t, func(t *testing.T, env *localtest.Env) {
		register(t, env, "etl", "0", registrytest.Spec(0)).Require(t, 200)
	}, func(t *testing.T, env *localtest.Env) *localtest.Response {
		return register(t, env, "etl", "1", registrytest.Spec(1))
	}, func(t *testing.T, env *localtest.Env, again *localtest.Response) {
		again.Require(t, 200)
		assert.Equal(t, "1", env.Do(t, env.A.Key, "GET", "/flows/etl/latest", nil).String(t, "flow_version"))
		assert.Len(t, env.Do(t, env.A.Key, "GET", "/flows/etl/versions", nil).Items(t), 2)
		assert.Equal(t, 2, actions(t, env, "register", "flow"))
	})
}

func TestDeletionSurvivesCrashAtEveryWrite(t *testing.T) {
	t.Parallel()
	crash(t, func(t *testing.T, env *localtest.Env) {
		for i, version := range []string{"1", "2", "3"} {
			register(t, env, "etl", version, registrytest.Spec(i)).Require(t, 200)
		}
	}, func(t *testing.T, env *localtest.Env) *localtest.Response {
		return env.Do(t, env.A.Key, "DELETE", "/flows/etl", nil)
	}, func(t *testing.T, env *localtest.Env, again *localtest.Response) {
		assert.Contains(t, []int{200, 404}, again.Code, "404 if the first was done before it broke")
		assert.Equal(t, 1, actions(t, env, "delete", "flow"))
		env.Do(t, env.A.Key, "GET", "/flows/etl/2", nil).Require(t, 404)
		register(t, env, "etl", "2", registrytest.Spec(7)).Require(t, 200)
		assert.Len(t, env.Do(t, env.A.Key, "GET", "/flows/etl/versions", nil).Items(t), 1, "nothing of the old flow comes back")
		env.Do(t, env.A.Key, "GET", "/flows/etl/1", nil).Require(t, 404)
	})
}

func TestDraftSurvivesCrashAtEveryWrite(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"small": "print('new')", "large": strings.Repeat("# new\n", 10_000)} {
		t.Run(name, func(t *testing.T) {
			body := object{"source": object{"flow.py": text}}
			crash(t, func(t *testing.T, env *localtest.Env) {
				env.Do(t, env.A.Key, "POST", "/flows/etl/draft", nil).Require(t, 200)
			}, func(t *testing.T, env *localtest.Env) *localtest.Response {
				return env.Do(t, env.A.Key, "PUT", "/flows/etl/draft/source", body)
			}, func(t *testing.T, env *localtest.Env, again *localtest.Response) {
				again.Require(t, 200)
				assert.Equal(t, text, env.Do(t, env.A.Key, "GET", "/flows/etl/draft/source", nil).String(t, "source", "flow.py"))
				assert.Equal(t, 1, actions(t, env, "update", "flow_draft"))
			})
		})
	}
}
