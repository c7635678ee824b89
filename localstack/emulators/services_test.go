package emulators

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fakeDocker puts a docker on the PATH that records its arguments and runs a
// script. It returns a function that reads the record.
func fakeDocker(t *testing.T, script string) func() string {
	t.Helper()
	dir := t.TempDir()
	notes := filepath.Join(dir, "notes")
	text := "#!/bin/sh\necho \"$* token=$LOCALSTACK_AUTH_TOKEN\" >> " + notes + "\n" + script + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "docker"), []byte(text), 0o700))
	t.Setenv("PATH", dir+":/bin:/usr/bin")
	return func() string {
		data, err := os.ReadFile(notes)
		require.NoError(t, err)
		return string(data)
	}
}

func TestLocalStackIsChosenIfAvailable(t *testing.T) {
	fakeDocker(t, "exit 0")
	t.Setenv(tokenVariable, "")
	name, why := Choose(t.Context())
	assert.Equal(t, Emulators, name)
	assert.Contains(t, why, "LOCALSTACK_AUTH_TOKEN is not set")
	t.Setenv(tokenVariable, "token")
	name, _ = Choose(t.Context())
	assert.Equal(t, LocalStack, name)
	fakeDocker(t, "echo cannot connect >&2; exit 1")
	name, why = Choose(t.Context())
	assert.Equal(t, Emulators, name)
	assert.Contains(t, why, "cannot connect")
	t.Setenv("PATH", t.TempDir())
	name, why = Choose(t.Context())
	assert.Equal(t, Emulators, name)
	assert.Contains(t, why, "not found")
}

func TestLocalStackIsStartedAndStoppedByCompose(t *testing.T) {
	notes := fakeDocker(t, "echo pulling")
	t.Setenv(tokenVariable, "token")
	dir := t.TempDir()
	var log bytes.Buffer
	s, err := startLocalStack(t.Context(), dir, &log)
	require.NoError(t, err)
	assert.Equal(t, "http://localhost:4566", s.SQS.URL)
	assert.Equal(t, "pulling\n", log.String())
	file := filepath.Join(dir, "compose.yaml")
	assert.FileExists(t, file)
	require.NoError(t, s.Stop())
	assert.NoFileExists(t, file)
	require.NoError(t, Clean(dir, &log), "there is nothing left to end")
	compose := "compose --project-name millrace-local --file " + file
	assert.Equal(t, compose+" up --wait --force-recreate token=token\n"+compose+" down --volumes token=token\n", notes())
}

func TestLocalStackThatDoesNotStartIsStopped(t *testing.T) {
	notes := fakeDocker(t, `case "$*" in *" up "*) exit 1;; esac`)
	t.Setenv(tokenVariable, "")
	_, err := Start(t.Context(), LocalStack, t.TempDir(), &bytes.Buffer{})
	require.ErrorContains(t, err, "docker compose up: exit status 1")
	assert.Contains(t, notes(), "down --volumes token=none", "compose wants a token to end it too")
	_, err = Start(t.Context(), "other", t.TempDir(), nil)
	require.ErrorContains(t, err, `"other" is neither localstack nor emulators`)
}

func TestEmulatorsProvideAllServices(t *testing.T) {
	t.Parallel()
	s, err := Start(t.Context(), Emulators, t.TempDir(), &bytes.Buffer{})
	require.NoError(t, err)
	assert.Len(t, s.AccountID, 12)
	_, err = dynamodb.NewFromConfig(s.DynamoDB.Config()).ListTables(t.Context(), &dynamodb.ListTablesInput{})
	require.NoError(t, err)
	_, err = secretsmanager.NewFromConfig(s.SecretsManager.Config()).ListSecrets(t.Context(), &secretsmanager.ListSecretsInput{})
	require.NoError(t, err)
	require.NoError(t, s.Stop())
	<-s.Died()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Start(ctx, Emulators, t.TempDir(), &bytes.Buffer{})
	require.Error(t, err)
	assert.NotContains(t, strings.ToLower(err.Error()), "panic")
}
