package e2e

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestFromStagingToProduction does what a user of two environments does.
func TestFromStagingToProduction(t *testing.T) {
	t.Parallel()
	data := dataDir(t)
	project := filepath.Dir(data)
	u := &user{t: t, dir: project}
	start(t, filepath.Join(project, ".millrace"))
	u.must("env", "create", "production", "--description", "the real one")
	flow := `{"flow_name":"f","flow_version":"1","flow_spec":{"tasks":[{"name":"a","type":"transform","config":{"expression":"vars"}}]}}`
	assert.Zero(t, u.run(flow, "api", "POST", "/flows", "--input", "-").code)
	made := u.must("api", "POST", "/deployments", "-f", "deployment_name=f-staging", "-f", "flow_name=f", "-f", `flow_version="1"`, "-f", "environment=staging")
	assert.Contains(t, made, `"environment_created":true`)
	assert.Contains(t, u.must("env", "vars", "staging", "REGION=eu", "BATCH=500", "OLD=x"), "BATCH")
	assert.NotContains(t, u.must("env", "vars", "staging", "--disable", "BATCH", "--unset", "OLD"), "OLD")
	u.must("api", "PUT", "/deployments/f-staging/settings", "-f", "schedule=0 5 * * *")
	u.must("run", "f-staging", "-w")
	assert.JSONEq(t, `{"REGION":"eu"}`, u.must("output", "last", "a"))

	assert.Regexp(t, `removed +variable REGION +eu`, u.must("env", "diff", "staging", "production"))
	scheduled := `added +schedule deployment.f-production +0 5 \* \* \* UTC \(enabled, next run \S+T05:00:00Z\)\n`
	planned := u.must("env", "promote", "staging", "production", "--dry-run")
	assert.Contains(t, planned, "would be done")
	assert.Regexp(t, scheduled, planned)
	assert.Regexp(t, `added +variable REGION +eu\n$`, u.must("env", "promote", "staging", "production", "--var", "REGION"))
	assert.NotContains(t, u.must("deployments"), "f-production", "only what was named")
	promoted := u.must("env", "promote", "staging", "production")
	assert.Regexp(t, `added +deployment f-production of flow f +1\n`, promoted)
	assert.Regexp(t, scheduled, promoted)
	assert.Contains(t, u.must("env", "promote", "staging", "production"), "nothing to promote")
	u.must("run", "f-production", "-w")
	assert.Contains(t, u.must("env", "get", "production"), "the real one")

	refused := u.run("", "env", "delete", "production")
	assert.Equal(t, 1, refused.code)
	assert.Contains(t, refused.err, "deployment 'f-production'")
	assert.Equal(t, 6, u.run("", "env", "get", "none").code)
	assert.Equal(t, 2, u.run("", "env", "vars", "staging", "REGION").code)
	unknown := u.run("", "run", "f@1", "--env", "none")
	assert.Equal(t, 1, unknown.code)
	assert.Contains(t, unknown.err, "there is no environment 'none'")
	u.must("api", "DELETE", "/deployments/f-production")
	u.must("env", "delete", "production")
	assert.NotContains(t, u.must("env", "list"), "production")
}
