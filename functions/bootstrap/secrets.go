package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/smithy-go"
)

// secretsPatience is how long reading a secret may take. A function needs at
// most two, and Lambda gives it 10 s to start.
const secretsPatience = 4 * time.Second

// secretVariables may contain the ARN of a secret in Secrets Manager instead of
// their value, so that the value is neither in the deployment's template nor in
// the function's settings.
var secretVariables = []string{envCursorKey, envAttemptKey}

// secrets is an environment in which such ARNs are replaced by values.
type secrets struct {
	getenv func(string) string
	read   func(ctx context.Context, arn string) (string, error)
	faults []error
}

// get implements getenv. It reads a secret on demand; if that fails, it records
// the error and returns "".
func (s *secrets) get(name string) string {
	value := s.getenv(name)
	if !slices.Contains(secretVariables, name) || !strings.HasPrefix(value, "arn:") {
		return value
	}
	ctx, cancel := context.WithTimeout(context.Background(), secretsPatience)
	defer cancel()
	value, err := s.read(ctx, value)
	if err != nil {
		s.faults = append(s.faults, fmt.Errorf("the secret of %s could not be read: %w", name, err))
		return ""
	}
	return value
}

// readSecret reads a secret by its ARN. Its errors do not contain the value.
func readSecret(ctx context.Context, arn string) (string, error) {
	base, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return "", err
	}
	out, err := secretsmanager.NewFromConfig(base).GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &arn})
	if err, ok := errors.AsType[smithy.APIError](err); ok {
		return "", fmt.Errorf("%s: %s", err.ErrorCode(), err.ErrorMessage())
	}
	if err != nil {
		return "", err
	}
	return aws.ToString(out.SecretString), nil
}
