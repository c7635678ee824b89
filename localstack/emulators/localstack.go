package emulators

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

//go:embed compose.yaml
var composeFile []byte

// The project of the compose file, and the address where it publishes
// LocalStack.
const (
	composeName    = "compose.yaml"
	composeProject = "millrace-local"
	localStackURL  = "http://localhost:4566"
)

// stopPatience is how long the container may take to stop.
const stopPatience = time.Minute

// compose runs docker compose with the file in dir.
func compose(ctx context.Context, dir string, log io.Writer, args ...string) error {
	file := filepath.Join(dir, composeName)
	cmd := exec.CommandContext(ctx, "docker", append([]string{"compose", "--project-name", composeProject, "--file", file}, args...)...)
	cmd.Env = os.Environ()
	if os.Getenv(tokenVariable) == "" {
		cmd.Env = append(cmd.Env, tokenVariable+"=none") // the file requires one, even to stop the container
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("emulators: docker compose %s: %w", args[0], err)
	}
	return nil
}

// startLocalStack starts the container of the compose file, which is stored in
// dir until it is stopped.
func startLocalStack(ctx context.Context, dir string, log io.Writer) (*Services, error) {
	if err := os.WriteFile(filepath.Join(dir, composeName), composeFile, 0o600); err != nil {
		return nil, fmt.Errorf("emulators: %w", err)
	}
	stop := func() error { return Clean(dir, log) }
	if err := compose(ctx, dir, log, "up", "--wait", "--force-recreate"); err != nil {
		return nil, errors.Join(err, stop())
	}
	e := local(localStackURL)
	return &Services{DynamoDB: e, S3: e, SQS: e, EventBridge: e, KMS: e, SecretsManager: e, SES: e, stop: stop}, nil
}

// Clean stops the container that was started with dir, if there is one, even if
// the process that started it was killed.
func Clean(dir string, log io.Writer) error {
	file := filepath.Join(dir, composeName)
	if _, err := os.Stat(file); err != nil {
		return nil // none was started
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	if err := compose(ctx, dir, log, "down", "--volumes"); err != nil {
		return err
	}
	return os.Remove(file)
}
