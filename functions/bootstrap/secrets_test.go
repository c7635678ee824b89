package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/localstack/runtimeapi"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/keyring"
	"millrace/shared/run/sandbox/ticket"
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
	s := secrets{getenv: getenv(env), read: func(_ context.Context, _, stage string) (secretVersion, error) {
		assert.Equal(t, "AWSCURRENT", stage, "a start reads no more")
		return secretVersion{"1", secret}, nil
	}}
	cfg, err := readSettings(s.get, runs)
	require.NoError(t, err)
	assert.Len(t, cfg.CursorKeys.Current(t.Context()), 35)
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

// rotated is a secret that is rotated.
type rotated struct {
	mu      sync.Mutex
	values  []string // newest last
	reads   []string // stages
	failing bool
}

func (r *rotated) rotate(value string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.values = append(r.values, base64.StdEncoding.EncodeToString([]byte(value)))
}

func (r *rotated) read(_ context.Context, _, stage string) (secretVersion, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads = append(r.reads, stage)
	at := len(r.values) - 1
	if stage == stagePrevious {
		at--
	}
	switch {
	case r.failing:
		return secretVersion{}, errors.New("throttled")
	case at < 0:
		return secretVersion{}, errNoVersion
	}
	return secretVersion{fmt.Sprint(at), r.values[at]}, nil
}

// take returns the stages that were read since.
func (r *rotated) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.reads = nil }()
	return r.reads
}

// environmentOf returns the keys of an environment that starts now.
func environmentOf(t *testing.T, r *rotated, now clock.Clock) *keyring.Ring {
	t.Helper()
	env := complete()
	env[envAttemptKey] = secretARN
	s := &secrets{getenv: getenv(env), read: r.read, clock: now}
	spec, _ := catalog.Find(catalog.All(), "sandboxlogs")
	cfg, err := readSettings(s.get, spec)
	require.NoError(t, err)
	return s.rotating(envAttemptKey, cfg.AttemptKeys)
}

// TestEnvironmentsNoticeRotation: no environment is replaced when a key is, and
// what was signed before is valid until the key is rotated again.
func TestEnvironmentsNoticeRotation(t *testing.T) {
	t.Parallel()
	const one, two, three = "the first key, of 32 bytes or more", "the second key, of 32 bytes or more", "the third key, of 32 bytes or more"
	at := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	now := clock.Func(func() time.Time { return at })
	var r rotated
	r.rotate(one)
	token := func(keys *keyring.Ring) string {
		return ticket.Sign(keys.Current(t.Context()), ticket.Attempt{Org: "org_a", Run: "R", Number: 1, Expires: at.Add(24 * time.Hour).Unix()})
	}
	valid := func(keys *keyring.Ring, token string) bool {
		_, err := ticket.Check(t.Context(), keys, token, at)
		return err == nil
	}
	old := environmentOf(t, &r, now)
	before := token(old)
	assert.Equal(t, []string{stageCurrent}, r.take())

	r.rotate(two)
	fresh := environmentOf(t, &r, now)
	after := token(fresh)
	r.take()
	assert.True(t, valid(fresh, before), "signed before the rotation")
	assert.Equal(t, []string{stageCurrent, stagePrevious}, r.take())
	assert.True(t, valid(old, after), "by an environment that started later")
	assert.True(t, valid(old, before))
	assert.Equal(t, after, token(old))
	r.take()
	at = at.Add(keyring.Stale)
	assert.Equal(t, token(fresh), token(old))
	assert.Equal(t, []string{stageCurrent, stageCurrent}, r.take(), "one request each if there was no rotation")

	r.rotate(three)
	r.failing = true
	at = at.Add(keyring.Stale)
	assert.True(t, valid(old, after), "while the secret cannot be read")
	r.failing = false
	at = at.Add(keyring.Again)
	for _, keys := range []*keyring.Ring{old, fresh} {
		assert.False(t, valid(keys, before), "two rotations later")
		assert.True(t, valid(keys, after))
	}

	r.rotate("x")
	at = at.Add(keyring.Stale)
	assert.True(t, valid(old, after), "a secret that is no key is not used")
}

// TestAPIKeyIsReadWhenItIsUsed: it may be stored after the function has started,
// and replaced.
func TestAPIKeyIsReadWhenItIsUsed(t *testing.T) {
	t.Parallel()
	stored := errors.New("no value")
	var value string
	s := secrets{read: func(_ context.Context, arn, stage string) (secretVersion, error) {
		assert.Equal(t, []string{secretARN, stageCurrent}, []string{arn, stage})
		return secretVersion{value: value}, stored
	}}
	key := s.late(secretARN)
	_, err := key(t.Context())
	require.ErrorIs(t, err, stored)
	stored = nil
	for _, value = range []string{"svc_first", "svc_second"} {
		got, err := key(t.Context())
		require.NoError(t, err)
		assert.Equal(t, value, got)
	}
	value = "svc_third\n"
	got, err := key(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "svc_third", got, "without the end of the line that it was piped with")
	got, err = s.late("svc_plain")(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "svc_plain", got)
}
