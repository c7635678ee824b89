package e2e

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestSchedulesOfAUser does what a user of schedules does.
func TestSchedulesOfAUser(t *testing.T) {
	t.Parallel()
	data := dataDir(t)
	project := filepath.Dir(data)
	u := &user{t: t, dir: project}
	start(t, filepath.Join(project, ".millrace"))
	flow := `{"flow_name":"f","flow_version":"1","flow_spec":{"tasks":[{"name":"a","type":"transform","config":{"expression":"params"}}]}}`
	assert.Zero(t, u.run(flow, "api", "POST", "/flows", "--input", "-").code)
	made := u.must("api", "POST", "/deployments", "-f", "deployment_name=prod", "-f", "flow_name=f", "-f", `flow_version="1"`,
		"-f", "schedule=30 6 * * *", "-f", "timezone=Europe/Berlin")
	assert.Contains(t, made, `"schedule_id":"deployment.prod"`)
	assert.Regexp(t, `prod .*30 6 \* \* \* Europe/Berlin`, u.must("deployments"))

	assert.Regexp(t, `^nightly: f@1, every 1h30m, next run: \d`, u.must("schedules", "set", "nightly", "--flow", "f@1", "--every", "90m", "-p", "n=1"))
	assert.Regexp(t, `nightly: prod, @daily UTC, next run: disabled`, u.must("schedules", "set", "nightly", "--deployment", "prod", "--cron", "@daily", "--disabled"))
	listed := u.must("schedules", "list")
	assert.Contains(t, listed, "deployment.prod")
	assert.Contains(t, listed, "nightly")
	assert.NotContains(t, u.must("schedules", "list", "--enabled"), "nightly")
	assert.NotContains(t, u.must("schedules", "list", "--enabled=false"), "deployment.prod")
	assert.Regexp(t, `deployment.prod +prod +30 6 \* \* \* Europe/Berlin +\d`, u.must("schedules", "get", "deployment.prod"))
	assert.Contains(t, u.must("schedules", "disable", "deployment.prod"), "next run: disabled")
	assert.NotContains(t, u.must("schedules", "enable", "deployment.prod"), "disabled")

	assert.Regexp(t, `\(0[0-9A-Z]{25}\)\n$`, u.must("schedules", "trigger", "nightly", "-p", "n=2", "-p", "who=me"))
	run := u.must("runs", "get", "last", "--json")
	assert.Contains(t, run, `"trigger_source":"schedule"`)
	assert.Contains(t, run, `"who":"me"`)

	u.must("init", ".")
	assert.Contains(t, u.must("deploy", "--schedule", "@daily"), "schedule deployment.daily, next run: ")
	refusedBy := u.run("", "deploy", "--schedule", "@every 1m")
	assert.Equal(t, 1, refusedBy.code)
	assert.Contains(t, refusedBy.err, "body.schedule")
	assert.Contains(t, u.must("deploy"), "next run: ", "what is left out stays")
	assert.NotContains(t, u.must("deploy", "--schedule", ""), "next run")

	for _, args := range [][]string{
		{"set", "x", "--deployment", "prod"}, {"set", "x", "--cron", "@daily"}, {"set", "x", "--flow", "f", "--cron", "@daily"},
		{"set", "x", "--deployment", "prod", "--every", "1h", "--cron", "@daily"}, {"trigger", "nightly", "-p", "x"},
		{"set", "x", "--deployment", "prod", "--every", "90.5s"},
	} {
		assert.Equal(t, 2, u.run("", append([]string{"schedules"}, args...)...).code, "%v", args)
	}
	assert.Equal(t, 6, u.run("", "schedules", "get", "none").code)
	refused := u.run("", "schedules", "set", "x", "--deployment", "prod", "--cron", "@every 1m")
	assert.Equal(t, 1, refused.code)
	assert.Contains(t, refused.err, "cron_expression")
	u.must("api", "PUT", "/deployments/prod/settings", "-f", "schedule=")
	assert.NotContains(t, u.must("schedules", "list"), "deployment.prod")
}
