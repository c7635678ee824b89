package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/smithy-go"

	"millrace/shared/platform/awsenv"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/keyring"
	"millrace/shared/platform/telemetry/otlp"
)

// secretsPatience is how long reading a secret may take. A function needs at
// most three, and Lambda gives it 10 s to start.
const secretsPatience = 3 * time.Second

// The stages of a secret's versions in Secrets Manager: a rotation turns the
// current one into the previous one.
const (
	stageCurrent  = "AWSCURRENT"
	stagePrevious = "AWSPREVIOUS"
)

// secretVariables may contain the ARN of a secret in Secrets Manager instead of
// their value, so that the value is neither in the deployment's template nor in
// the function's settings.
var secretVariables = []string{envCursorKey, envAttemptKey, otlp.EnvHeaders}

// secretVersion is a version of a secret.
type secretVersion struct{ id, value string }

// secrets is an environment in which such ARNs are replaced by values.
type secrets struct {
	getenv func(string) string
	// read reads a secret's version by the ARN and the stage. Errors:
	// errNoVersion.
	read   func(ctx context.Context, arn, stage string) (secretVersion, error)
	clock  clock.Clock
	faults []error
}

// errNoVersion means that a secret has no version of a stage.
var errNoVersion = errors.New("no such version")

// get implements getenv. It reads a secret on demand; if that fails, it records
// the error and returns "".
func (s *secrets) get(name string) string {
	arn, ok := s.arn(name)
	if !ok {
		return s.getenv(name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), secretsPatience)
	defer cancel()
	v, err := s.read(ctx, arn, stageCurrent)
	if err != nil {
		s.faults = append(s.faults, fmt.Errorf("the secret of %s could not be read: %w", name, err))
		return ""
	}
	return v.value
}

// arn returns the ARN of a variable's secret, if it has one.
func (s *secrets) arn(name string) (arn string, ok bool) {
	value := s.getenv(name)
	return value, slices.Contains(secretVariables, name) && strings.HasPrefix(value, "arn:")
}

// late returns a function that reads a secret by its ARN when it is called, or
// returns the value if it is none: a text that nobody has stored yet, or that is
// replaced, concerns the function at once.
func (s *secrets) late(value string) func(ctx context.Context) (string, error) {
	read := s.read
	return func(ctx context.Context) (string, error) {
		if !strings.HasPrefix(value, "arn:") {
			return value, nil
		}
		ctx, cancel := context.WithTimeout(ctx, secretsPatience)
		defer cancel()
		v, err := read(ctx, value, stageCurrent)
		return strings.TrimSpace(v.value), err
	}
}

// rotating returns keys that follow the rotations of the secret that they were
// read from, or keys itself if they are from elsewhere. The previous key is
// read only when a signature was not made with the current one.
func (s *secrets) rotating(name string, keys *keyring.Ring) *keyring.Ring {
	arn, ok := s.arn(name)
	if !ok || keys == nil {
		return keys
	}
	r := &rotation{arn: arn, read: s.read}
	return keyring.New(keyring.Config{
		Keys: keyring.Keys{Current: keys.Current(context.Background())}, Read: r.keys, Clock: s.clock,
	})
}

// rotation reads the keys of a secret.
type rotation struct {
	arn   string
	read  func(ctx context.Context, arn, stage string) (secretVersion, error)
	id    string       // of the version that was current
	known keyring.Keys // then
}

// keys returns the secret's keys. If there was no rotation since its last call,
// that is one request.
func (r *rotation) keys(ctx context.Context) (keyring.Keys, error) {
	current, err := r.read(ctx, r.arn, stageCurrent)
	if err != nil {
		return keyring.Keys{}, err
	}
	if r.id != "" && current.id == r.id {
		return r.known, nil
	}
	var out keyring.Keys
	if out.Current, err = decodeKey(current.value); err != nil {
		return keyring.Keys{}, fmt.Errorf("the secret %w", err)
	}
	switch previous, err := r.read(ctx, r.arn, stagePrevious); {
	case errors.Is(err, errNoVersion):
	case err != nil:
		return keyring.Keys{}, err
	default:
		// One that is no key has signed nothing.
		out.Previous, _ = decodeKey(previous.value)
	}
	r.id, r.known = current.id, out
	return out, nil
}

// readSecret reads a version of a secret. Its errors do not contain the value.
func readSecret(ctx context.Context, arn, stage string) (secretVersion, error) {
	base, err := awsenv.Load(ctx)
	if err != nil {
		return secretVersion{}, err
	}
	out, err := secretsmanager.NewFromConfig(base).GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &arn, VersionStage: &stage})
	if err, ok := errors.AsType[smithy.APIError](err); ok {
		if err.ErrorCode() == "ResourceNotFoundException" && stage != stageCurrent {
			return secretVersion{}, errNoVersion
		}
		return secretVersion{}, fmt.Errorf("%s: %s", err.ErrorCode(), err.ErrorMessage())
	}
	if err != nil {
		return secretVersion{}, err
	}
	return secretVersion{id: aws.ToString(out.VersionId), value: aws.ToString(out.SecretString)}, nil
}
