package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/localstack/runtimeapi"
)

const secretARN = "arn:aws:secretsmanager:eu-central-1:000000000000:secret:cursor-AbCdEf"

// secretsManager starts a server with one value for every secret, or which
// fails if the value is empty, and reports the requested ids.
func secretsManager(t *testing.T, value string) (url string, asked <-chan string) {
	t.Helper()
	names := make(chan string, 8)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ SecretId string } //nolint:revive // AWS's spelling
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&in))
		assert.Equal(t, "secretsmanager.GetSecretValue", r.Header.Get("X-Amz-Target"))
		names <- in.SecretId
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		if value == "" {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"__type": "AccessDeniedException", "Message": "not for you"}`))
			return
		}
		assert.NoError(t, json.NewEncoder(w).Encode(map[string]string{"ARN": in.SecretId, "SecretString": value}))
	}))
	t.Cleanup(server.Close)
	return server.URL, names
}

// withSecrets starts a function whose cursor key is a secret's ARN.
func withSecrets(t *testing.T, handler, value string) (api *runtimeapi.API, asked <-chan string) {
	t.Helper()
	url, asked := secretsManager(t, value)
	api, err := runtimeapi.Start()
	require.NoError(t, err)
	t.Cleanup(func() { _ = api.Close() })
	cmd := exec.Command(binary)
	env := complete()
	env[envCursorKey] = secretARN
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, "AWS_LAMBDA_RUNTIME_API="+api.Address(), "_HANDLER="+handler,
		"AWS_ENDPOINT_URL_SECRETS_MANAGER="+url, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	return api, asked
}

func TestSecretIsReadByARN(t *testing.T) {
	t.Parallel()
	api, asked := withSecrets(t, "runs", secret)
	select {
	case <-api.Polled():
	case fault := <-api.InitFaults():
		require.Fail(t, "it did not start", fault.Message)
	case <-time.After(20 * time.Second):
		require.Fail(t, "no poll")
	}
	assert.Equal(t, secretARN, <-asked)

	env := complete()
	env[envCursorKey] = secretARN
	runs, _ := catalog.Find(catalog.All(), "runs")
	s := secrets{getenv: getenv(env), read: func(context.Context, string) (string, error) { return secret, nil }}
	cfg, err := readSettings(s.get, runs)
	require.NoError(t, err)
	assert.Len(t, cfg.CursorKey, 35)
}

func TestUnreadableSecretPreventsStart(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"":            "the secret of MILLRACE_CURSOR_KEY could not be read: AccessDeniedException: not for you",
		"too-short==": "MILLRACE_CURSOR_KEY is not the base64 of 32",
	} {
		api, _ := withSecrets(t, "runs", value)
		select {
		case fault := <-api.InitFaults():
			assert.Equal(t, "Runtime.InvalidSettings", fault.Type)
			assert.Contains(t, fault.Message, want)
			assert.NotContains(t, fault.Message, "too-short")
		case <-api.Polled():
			assert.Fail(t, "it started")
		case <-time.After(20 * time.Second):
			assert.Fail(t, "the Runtime API was not told")
		}
	}
}

func TestFunctionReadsOnlySecretsItNeeds(t *testing.T) {
	t.Parallel()
	api, asked := withSecrets(t, "taskworker", secret)
	select {
	case <-api.Polled():
	case <-time.After(20 * time.Second):
		require.Fail(t, "no poll")
	}
	assert.Empty(t, asked)
}
