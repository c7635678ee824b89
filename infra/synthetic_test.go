package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/synthetic"
	"millrace/localstack/client"
	"millrace/localstack/cloud/cloudtest"
	"millrace/localstack/emulators"
	"millrace/localstack/proc/proctest"
)

func deployedWithSyntheticRun(t *testing.T) deployment {
	t.Helper()
	cfg := example()
	cfg.SyntheticRun = true
	return synth(t, cfg, functions(cfg), "code")
}

// TestSyntheticRunIsAddedOnRequest: the function has the key's secret, which is
// nowhere else, a rule, and an alarm of what does not succeed.
func TestSyntheticRunIsAddedOnRequest(t *testing.T) {
	t.Parallel()
	d, without := deployedWithSyntheticRun(t), deployed(t)
	assert.Equal(t, without.data.json, d.data.json)
	added, _ := difference(without.service, d.service)
	for _, r := range added {
		assert.Contains(t, r.id, "SyntheticRun")
	}
	assert.NotContains(t, without.service.golden(t), "synthetic")

	secret := d.service.only(t, "SecretsManager::Secret")
	assert.Equal(t, "millrace-acme-prod-synthetic-run-key", secret.properties["Name"])
	assert.NotContains(t, secret.properties, "SecretString")
	assert.NotContains(t, secret.properties, "GenerateSecretString")
	variables := d.function(t, "synthetic-run").properties["Environment"].(object)["Variables"].(object)
	assert.Equal(t, "${"+secret.id+"}", text(variables["MILLRACE_API_KEY"]))
	assert.NotEmpty(t, variables["MILLRACE_URL"])
	may := map[string][]string{}
	for where, statements := range d.service.policyStatements() {
		for _, s := range statements {
			for _, on := range texts(s["Resource"]) {
				if on == "${"+secret.id+"}" {
					may[where] = append(may[where], texts(s["Action"])...)
				}
			}
		}
	}
	assert.Equal(t, map[string][]string{"SyntheticRunRole": {"secretsmanager:GetSecretValue"}}, may)
	for _, s := range d.service.policyStatements()["SyntheticRunRole"] {
		for _, action := range texts(s["Action"]) {
			assert.Regexp(t, `^(logs|secretsmanager|kms):`, action, "it has what a user has: the API")
		}
	}
	rule, found := d.service.named("Events::Rule", "Name", "millrace-acme-prod-synthetic-run")
	require.True(t, found)
	assert.Equal(t, "rate(1 minute)", rule.properties["ScheduleExpression"])

	alarm, found := d.operations.named("CloudWatch::Alarm", "AlarmName", "millrace-acme-prod-SyntheticRunFails")
	require.True(t, found)
	assert.Equal(t, []any{"LessThanThreshold", "breaching", 300.0, 1.0},
		[]any{alarm.properties["ComparisonOperator"], alarm.properties["TreatMissingData"], alarm.properties["Period"], alarm.properties["EvaluationPeriods"]})
	assert.True(t, d.watched("Millrace/acme/prod", "SyntheticRuns", "Outcome", "SUCCEEDED"))
	for _, metric := range []string{"Errors", "Throttles"} {
		assert.True(t, d.watched("AWS/Lambda", metric, "FunctionName", "millrace-acme-prod-synthetic-run"), metric)
	}
	assert.True(t, d.watched("AWS/Events", "FailedInvocations", "RuleName", "millrace-acme-prod-synthetic-run"))
}

// TestSyntheticRunTriesTheWholeService makes a deployment on this machine, does
// what the manual says, and lets the function start runs.
func TestSyntheticRunTriesTheWholeService(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{}
	for name, template := range deployedWithSyntheticRun(t).templates() {
		data, err := json.Marshal(template.json)
		require.NoError(t, err)
		files[name+".template.json"] = data
	}
	program := filepath.Join(t.TempDir(), "bootstrap")
	require.NoError(t, proctest.Build(program, proctest.Bootstrap))
	services := emulators.Shared(t)
	c := cloudtest.OpenWith(t, program, cloudtest.Options{Templates: files, Services: services, LogLevel: "error"})
	c.Start()
	try := func() (r synthetic.Result) {
		answer, err := c.Invoke(t.Context(), "synthetic-run", []byte(`{}`))
		require.NoError(t, err)
		data, err := answer.Bytes()
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &r))
		return r
	}
	r := try()
	assert.Equal(t, "REFUSED", r.Outcome)
	assert.Contains(t, r.Error, "no API key: ResourceNotFoundException")

	var key struct {
		Key string `json:"key"`
	}
	require.NoError(t, c.Client.Do(t.Context(), "POST", "/api-keys", map[string]any{"name": "synthetic", "scopes": []string{"runs.trigger", "runs.read"}}, &key))
	require.NotEmpty(t, key.Key)
	store := func(value string) {
		_, err := secretsmanager.NewFromConfig(services.SecretsManager.Config()).PutSecretValue(t.Context(), &secretsmanager.PutSecretValueInput{
			SecretId: aws.String(c.Prefix + "synthetic-run-key"), SecretString: &value,
		})
		require.NoError(t, err)
	}
	store(key.Key + "\n")
	r = try()
	assert.Equal(t, "REFUSED", r.Outcome)
	assert.Contains(t, r.Error, "404", "its flow is not deployed")

	source, err := os.ReadFile(filepath.Join("..", "functions", "synthetic", "flow.py"))
	require.NoError(t, err)
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	f, err := w.Create("flow.py")
	require.NoError(t, err)
	_, err = f.Write(source)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	_, err = c.Client.Upload(t.Context(), client.Upload{
		FlowName: "synthetic", FlowVersion: "1", DeploymentName: synthetic.Deployment, Zip: buf.Bytes(),
		Spec: json.RawMessage(`{"tasks": [{"name": "answer", "type": "python", "entrypoint": "flow:answer", "timeout_secs": 30}]}`),
	})
	require.NoError(t, err)
	r = try()
	require.Equal(t, "SUCCEEDED", r.Outcome, r.Error)
	run, err := c.Client.Run(t.Context(), r.RunID)
	require.NoError(t, err)
	assert.Equal(t, "42", string(run.TaskRuns[0].Output))

	store("svc_revoked")
	r = try()
	assert.Equal(t, "REFUSED", r.Outcome, "a key that is replaced counts at once")
	assert.Contains(t, r.Error, "401")
}
