package main

import (
	"encoding/base64"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/localstack/runtimeapi"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/telemetry/telemetrytest"
	"millrace/shared/run/sandbox"
	"millrace/shared/run/tier"
	"millrace/shared/web/fn"
)

const secret = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldC0="

// complete returns an environment in which every function starts.
func complete() map[string]string {
	return map[string]string{
		"AWS_REGION": "eu-central-1", envTable: "t", envBucket: "b", envBus: "bus", envQueuePrefix: "q-",
		envCursorKey: secret, envAttemptKey: secret, envVaultKey: "arn:aws:kms:eu-central-1:123456789012:key/k", envSigningKey: "arn:aws:kms:eu-central-1:123456789012:key/s", envSandboxPrefix: "s-",
		envLocked: "b-a", envMailFrom: "Millrace <alerts@example.com>", envURL: "https://api.test",
	}
}

func getenv(env map[string]string) func(string) string {
	return func(name string) string { return env[name] }
}

func TestEveryFunctionStartsWithOnlyItsDependencies(t *testing.T) {
	t.Parallel()
	for _, spec := range catalog.All() {
		cfg, err := readSettings(getenv(complete()), spec)
		require.NoError(t, err, spec.Name)
		p := newPlatform(cfg, spec)
		out, err := p.start()
		require.NoError(t, err, spec.Name)
		require.NotNil(t, out.handler, spec.Name)
		d := p.deps
		assert.Equal(t, spec.Needs.Table != fn.NoAccess, d.Table != nil, "%s: table", spec.Name)
		assert.Equal(t, spec.Needs.Blob != fn.NoAccess, d.Blob != nil, "%s: objects", spec.Name)
		if spec.Trigger.HTTP {
			_, err := p.service.Frame.Traces.Put(t.Context(), "org_1/outputs/x", strings.NewReader(""), 0, blob.PutOptions{})
			require.ErrorIs(t, err, blob.ErrKey, "%s: traces go to a folder of their own", spec.Name)
		}
		assert.Equal(t, usesQueues(spec), d.Queues != nil, "%s: queues", spec.Name)
		assert.Equal(t, spec.Needs.Publish, d.Bus != nil, "%s: bus", spec.Name)
		assert.Equal(t, spec.Needs.Sandbox || spec.Needs.Description, d.Sandbox != nil, "%s: sandbox", spec.Name)
		_, dispatches := d.Sandbox.(sandbox.Dispatcher)
		assert.Equal(t, spec.Needs.Sandbox, dispatches, "%s: starts tasks", spec.Name)
		assert.Equal(t, spec.Needs.Vault, d.Vault != nil, "%s: vault", spec.Name)
		assert.Equal(t, spec.Needs.Signer != fn.NoAccess, d.Signer != nil, "%s: signing key", spec.Name)
		assert.Equal(t, spec.Needs.Locked != fn.NoAccess, d.Locked != nil, "%s: locked copies", spec.Name)
		assert.Equal(t, spec.Needs.Mail, d.Mail != nil, "%s: mail", spec.Name)
		assert.Equal(t, spec.Needs.AttemptKey, d.Config.AttemptKeys != nil, "%s: key of attempts", spec.Name)
		assert.False(t, d.Config.Exclusive || d.Config.LongLived, spec.Name)
		assert.NotEmpty(t, d.Config.ProcessID, spec.Name)
	}
}

func TestTiersOfTheDeployment(t *testing.T) {
	t.Parallel()
	worker, _ := catalog.Find(catalog.All(), "taskworker")
	env := complete()
	for text, want := range map[string]tier.Set{"": nil, "nano,medium": {tier.Nano, tier.Medium}} {
		env[envTiers] = text
		cfg, err := readSettings(getenv(env), worker)
		require.NoError(t, err, text)
		assert.Equal(t, want, newPlatform(cfg, worker).deps.Config.Tiers, text)
	}
	env[envTiers] = "nano,giant"
	_, err := readSettings(getenv(env), worker)
	require.ErrorContains(t, err, envTiers+`: "giant" is not one of`)
}

func TestAllInvalidSettingsAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	worker, _ := catalog.Find(catalog.All(), "taskworker")
	_, err := readSettings(getenv(nil), worker)
	for _, name := range []string{envTable, envBucket, envBus, envVaultKey, envSandboxPrefix, envAttemptKey} {
		require.ErrorContains(t, err, name+" is missing")
	}
	assert.NotContains(t, err.Error(), envCursorKey, "a worker has no lists")
	assert.NotContains(t, err.Error(), envSigningKey, "a worker signs nothing")

	digests, _ := catalog.Find(catalog.All(), "audit-digest")
	_, err = readSettings(getenv(nil), digests)
	require.ErrorContains(t, err, envSigningKey+" is missing")

	runs, _ := catalog.Find(catalog.All(), "runs")
	unmatched, found := catalog.Unmatched(catalog.All())
	require.True(t, found)
	for want, change := range map[string]map[string]string{
		envCursorKey + " is not the base64 of 32": {envCursorKey: base64.StdEncoding.EncodeToString([]byte("hush"))},
		envCursorKey + " is not the base64":       {envCursorKey: "hush!"},
		"go together":                             {envIssuer: "https://id.test"},
		"is not a CIDR range":                     {envAllowRanges: "10.0.0.0/8, 10.0.0.1"},
		envLimits + ": unknown limit":             {envLimits: "runs-per-minute=60, apples=1"},
		"not debug, info, warn or error":          {envLogLevel: "loud"},
	} {
		env := complete()
		for k, v := range change {
			env[k] = v
		}
		_, err := readSettings(getenv(env), runs)
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "hush")
	}
	env := complete()
	env[envURL] = "api.test"
	_, err = readSettings(getenv(env), unmatched)
	require.ErrorContains(t, err, "no http or https URL")
	env = complete()
	env[envSuperAdmins] = "nobody"
	env["_HANDLER"] = "runs"
	_, err = start(getenv(env), catalog.All())
	require.ErrorIs(t, err, errSettings)
}

func TestFailedStartReportsReason(t *testing.T) {
	t.Parallel()
	for handler, want := range map[string]string{
		"nothing": `_HANDLER is "nothing", not one of admin, artifacts,`,
		"runs":    envTable + " is missing",
		"":        `_HANDLER is ""`,
	} {
		api, err := runtimeapi.Start()
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), binary)
		cmd.Env = []string{"AWS_LAMBDA_RUNTIME_API=" + api.Address(), "_HANDLER=" + handler}
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		assert.Equal(t, 1, exit.ExitCode())
		said := telemetrytest.Lines(t, string(out))
		require.Len(t, said, 1)
		assert.Equal(t, "ERROR", said[0]["level"])
		assert.Contains(t, said[0]["error"], want)
		if handler == "nothing" {
			for _, spec := range catalog.All() {
				assert.Contains(t, said[0]["error"], spec.Name)
			}
		}
		select {
		case fault := <-api.InitFaults():
			assert.Equal(t, "Runtime.InvalidSettings", fault.Type)
			assert.Contains(t, fault.Message, want)
		case <-time.After(10 * time.Second):
			assert.Fail(t, "the Runtime API was not told")
		}
		require.NoError(t, api.Close())
	}
}
