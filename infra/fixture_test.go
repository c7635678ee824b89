package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/functions/catalog"
	"millrace/localstack/cloud/cloudtest"
	"millrace/localstack/emulators"
	"millrace/localstack/proc/proctest"
	"millrace/localstack/proof/fixture/reminders"
	"millrace/localstack/proof/fixture/remindertest"
)

// TestDomainInCatalogIsDeployed synthesizes the templates of a catalog with one
// more domain, deploys them on DynamoDB Local and moto with a bootstrap of that
// catalog, and uses the domain.
func TestDomainInCatalogIsDeployed(t *testing.T) {
	t.Parallel()
	after, err := synthesize(example(), catalog.With(reminders.Specs...), "code")
	require.NoError(t, err)
	before := deployed(t)

	paths := after.paths(t)
	assert.Len(t, paths, len(before.paths(t))+2)
	assert.Contains(t, paths["/reminders"], "post")
	assert.Contains(t, paths["/reminders"], "get")
	assert.Contains(t, paths["/reminders/{reminder_name}"], "get")
	assert.Contains(t, paths["/reminders/{reminder_name}"], "delete")
	for _, spec := range reminders.Specs {
		assert.Equal(t, spec.Name, after.function(t, spec.Name).properties["Handler"])
		assert.True(t, after.watched("AWS/Lambda", "Errors", "FunctionName", "millrace-acme-prod-"+spec.Name))
	}
	for _, queue := range []string{reminders.Reminder.Queue(), reminders.Deadline.Queue(), catalog.BusQueue(reminders.EventsSpec)} {
		_, found := after.data.named("SQS::Queue", "QueueName", "millrace-acme-prod-"+queue)
		assert.True(t, found, queue)
	}
	_, changed := difference(before.service, after.service)
	for _, r := range changed {
		assert.Contains(t, []string{"AWS::ApiGateway::RestApi", "AWS::ApiGateway::Deployment", "AWS::ApiGateway::Stage", "AWS::IAM::Role"}, r.kind, "%s is unchanged", r.id)
	}

	files := map[string][]byte{}
	for name, template := range after.templates() {
		files[name+".template.json"], err = json.Marshal(template.json)
		require.NoError(t, err)
	}
	c := cloudtest.OpenWith(t, bootstrapWith(t, "reminders"), cloudtest.Options{Templates: files})
	c.Start()
	remindertest.Exercise(t, remindertest.Service{
		Client: c.Client, Org: c.OrgID, Table: c.Table,
		Tick: func() (result events.SchedulerTickResult) {
			answer, err := c.Invoke(t.Context(), "scheduler-tick", []byte(`{"event_type":"scheduler_tick"}`))
			require.NoError(t, err)
			data, err := answer.Bytes()
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(data, &result))
			return result
		},
	})
}

// bootstrapWith builds the bootstrap with a fixture's domain in the catalog: it
// adds the catalog's line and import.
func bootstrapWith(t *testing.T, domain string) string {
	t.Helper()
	root, err := emulators.Root()
	require.NoError(t, err)
	dir, file := t.TempDir(), filepath.Join(root, "functions", "catalog", "catalog.go")
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	changed := strings.Replace(string(source), "func All() []fn.Spec { return With() }", "func All() []fn.Spec { return With("+domain+".Specs...) }", 1)
	changed = strings.Replace(changed, "import (", "import (\n\t\"millrace/localstack/proof/fixture/"+domain+"\"", 1)
	require.Contains(t, changed, "With("+domain+".Specs...)")
	instead, overlay, program := filepath.Join(dir, "catalog.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "bootstrap")
	require.NoError(t, os.WriteFile(instead, []byte(changed), 0o600))
	replace, err := json.Marshal(object{"Replace": object{file: instead}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, replace, 0o600))
	require.NoError(t, proctest.Build(program, proctest.Bootstrap, "-overlay", overlay))
	return program
}
