package emulators

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"golang.org/x/sync/errgroup"
)

// The programs that can emulate AWS.
const (
	LocalStack = "localstack" // in Docker, with a token
	Emulators  = "emulators"  // DynamoDB Local and moto
)

// tokenVariable is the variable with the token that LocalStack requires.
const tokenVariable = "LOCALSTACK_AUTH_TOKEN"

// Services are running emulators of AWS.
type Services struct {
	Name      string // LocalStack or Emulators
	AccountID string // of all resources

	DynamoDB, S3, SQS, EventBridge, KMS, SecretsManager, SES Endpoint

	stop func() error
	died <-chan struct{}
}

// Choose returns LocalStack if its token is in the environment and Docker
// answers, otherwise Emulators, and the reason.
func Choose(ctx context.Context) (name, why string) {
	if os.Getenv(tokenVariable) == "" {
		return Emulators, tokenVariable + " is not set"
	}
	if out, err := exec.CommandContext(ctx, "docker", "info", "--format", "{{.ServerVersion}}").CombinedOutput(); err != nil {
		return Emulators, "Docker does not answer: " + strings.TrimSpace(cmp.Or(string(out), err.Error()))
	}
	return LocalStack, tokenVariable + " is set and Docker answers"
}

// Start starts the named services without resources, and waits until they
// answer. dir is for files needed to start LocalStack, and log receives its
// output. The caller must call Stop.
func Start(ctx context.Context, name, dir string, log io.Writer) (*Services, error) {
	var s *Services
	var err error
	switch name {
	case LocalStack:
		s, err = startLocalStack(ctx, dir, log)
	case Emulators:
		s, err = startEmulators(ctx)
	default:
		return nil, fmt.Errorf("emulators: %q is neither %s nor %s", name, LocalStack, Emulators)
	}
	if err != nil {
		return nil, err
	}
	s.Name = name
	if s.AccountID, err = account(ctx, s.EventBridge); err != nil {
		return nil, errors.Join(fmt.Errorf("emulators: %s: %w", name, err), s.Stop())
	}
	return s, nil
}

func startEmulators(ctx context.Context) (*Services, error) {
	var table, rest *Process
	starts, started := errgroup.WithContext(ctx)
	starts.Go(func() (err error) { table, err = StartDynamoDB(started); return err })
	starts.Go(func() (err error) { rest, err = StartMoto(started); return err })
	err := starts.Wait()
	stop := func() error {
		for _, p := range []*Process{table, rest} {
			if p != nil {
				p.Kill()
			}
		}
		return nil
	}
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	died := make(chan struct{})
	go func() {
		defer close(died)
		select {
		case <-table.Exited():
		case <-rest.Exited():
		}
	}()
	moto := local(rest.URL)
	return &Services{DynamoDB: local(table.URL), S3: moto, SQS: moto, EventBridge: moto, KMS: moto, SecretsManager: moto, SES: moto, stop: stop, died: died}, nil
}

// account returns the account number that the services use.
func account(ctx context.Context, e Endpoint) (string, error) {
	out, err := eventbridge.NewFromConfig(e.Config()).DescribeEventBus(ctx, &eventbridge.DescribeEventBusInput{})
	if err != nil {
		return "", fmt.Errorf("ask for the account: %w", err)
	}
	parts := strings.Split(*out.Arn, ":")
	if len(parts) < 6 {
		return "", fmt.Errorf("the default bus is called %q", *out.Arn)
	}
	return parts[4], nil
}

// Died returns a channel that is closed when a part of the services ends by
// itself; nil if that is not detected.
func (s *Services) Died() <-chan struct{} { return s.died }

// Stop stops the services and discards their content.
func (s *Services) Stop() error { return s.stop() }

// Shared returns the services of a test process, like [DynamoDB], [SQS] and the
// others individually. They must not be stopped.
func Shared(t testing.TB) *Services {
	t.Helper()
	s := &Services{
		Name: Emulators, DynamoDB: DynamoDB(t), S3: S3(t), SQS: SQS(t), EventBridge: EventBridge(t), KMS: KMS(t), SecretsManager: SecretsManager(t), SES: SES(t),
		stop: func() error { return nil },
	}
	var err error
	if s.AccountID, err = account(t.Context(), s.EventBridge); err != nil {
		t.Fatalf("emulators: %v", err)
	}
	return s
}
