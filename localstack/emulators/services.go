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

// The programs that may stand in for AWS.
const (
	LocalStack = "localstack" // in Docker, with a token
	Emulators  = "emulators"  // DynamoDB Local and moto
)

// tokenVariable holds the token that LocalStack asks for.
const tokenVariable = "LOCALSTACK_AUTH_TOKEN"

// Services are what stands in for AWS, as long as it is not stopped.
type Services struct {
	Name      string // LocalStack or Emulators
	AccountID string // as which everything is done

	DynamoDB, S3, SQS, EventBridge, KMS, SecretsManager Endpoint

	stop func() error
	died <-chan struct{}
}

// Choose returns LocalStack if its token is in the environment and Docker
// answers, else Emulators, and why.
func Choose(ctx context.Context) (name, why string) {
	if os.Getenv(tokenVariable) == "" {
		return Emulators, tokenVariable + " is not set"
	}
	if out, err := exec.CommandContext(ctx, "docker", "info", "--format", "{{.ServerVersion}}").CombinedOutput(); err != nil {
		return Emulators, "Docker does not answer: " + strings.TrimSpace(cmp.Or(string(out), err.Error()))
	}
	return LocalStack, tokenVariable + " is set and Docker answers"
}

// Start starts what the name says, empty of resources, and waits until it
// answers. dir holds what LocalStack's start needs, and log gets what it says.
// Stop it in the end.
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
	return &Services{DynamoDB: local(table.URL), S3: moto, SQS: moto, EventBridge: moto, KMS: moto, SecretsManager: moto, stop: stop, died: died}, nil
}

// account is the number of the account that requests are taken to come from.
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

// Died is closed when a part of the services ends by itself; nil where nobody
// can tell.
func (s *Services) Died() <-chan struct{} { return s.died }

// Stop ends the services; what they held is gone.
func (s *Services) Stop() error { return s.stop() }

// Shared returns the services of a test process, as [DynamoDB], [SQS] and the
// others do one by one. They are not to be stopped.
func Shared(t testing.TB) *Services {
	t.Helper()
	s := &Services{
		Name: Emulators, DynamoDB: DynamoDB(t), S3: S3(t), SQS: SQS(t), EventBridge: EventBridge(t), KMS: KMS(t), SecretsManager: SecretsManager(t),
		stop: func() error { return nil },
	}
	var err error
	if s.AccountID, err = account(t.Context(), s.EventBridge); err != nil {
		t.Fatalf("emulators: %v", err)
	}
	return s
}
