// Package emulators starts and stops programs that implement AWS's protocols on
// one machine, without Docker: AWS's DynamoDB Local, and moto for SQS, S3,
// EventBridge, KMS, Secrets Manager and SES. Tests of drivers ask for an
// [Endpoint]. A test process runs at most one of each, on a free port and in
// memory, and it dies with the process. The SDK's own variables (AWS_ENDPOINT_URL,
// AWS_ENDPOINT_URL_SQS …) select something else instead, such as LocalStack
// (see compose.yaml) or AWS: then nothing is started. An endpoint that cannot
// be reached fails the test.
package emulators

import (
	"cmp"
	"context"
	"os"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// Endpoint is the address of a service.
type Endpoint struct {
	URL string // such as http://127.0.0.1:40123

	given *aws.Config // from the environment; nil for our own emulator
}

// Region and credentials for emulators, which accept any.
const (
	Region    = "us-east-1"
	accessKey = "test"
	secretKey = "test"
)

func local(url string) Endpoint { return Endpoint{URL: url} }

// Config returns a configuration for clients of the endpoint. An S3 client also
// needs UsePathStyle.
func (e Endpoint) Config() aws.Config {
	if e.given != nil {
		return e.given.Copy()
	}
	return aws.Config{
		Region:       Region,
		BaseEndpoint: aws.String(e.URL),
		Credentials:  credentials.NewStaticCredentialsProvider(accessKey, secretKey, ""),
	}
}

// DynamoDB returns an endpoint of DynamoDB: AWS_ENDPOINT_URL_DYNAMODB, or else
// DynamoDB Local.
func DynamoDB(t testing.TB) Endpoint { t.Helper(); return endpoint(t, "DYNAMODB", sharedDynamoDB) }

// SQS returns an endpoint of SQS: AWS_ENDPOINT_URL_SQS, or else moto.
func SQS(t testing.TB) Endpoint { t.Helper(); return endpoint(t, "SQS", sharedMoto) }

// S3 returns an endpoint of S3: AWS_ENDPOINT_URL_S3, or else moto.
func S3(t testing.TB) Endpoint { t.Helper(); return endpoint(t, "S3", sharedMoto) }

// EventBridge returns an endpoint of EventBridge: AWS_ENDPOINT_URL_EVENTBRIDGE,
// or else moto.
func EventBridge(t testing.TB) Endpoint { t.Helper(); return endpoint(t, "EVENTBRIDGE", sharedMoto) }

// KMS returns an endpoint of KMS: AWS_ENDPOINT_URL_KMS, or else moto.
func KMS(t testing.TB) Endpoint { t.Helper(); return endpoint(t, "KMS", sharedMoto) }

// SES returns an endpoint of SES: AWS_ENDPOINT_URL_SESV2, or else moto.
func SES(t testing.TB) Endpoint { t.Helper(); return endpoint(t, "SESV2", sharedMoto) }

// SecretsManager returns an endpoint of Secrets Manager:
// AWS_ENDPOINT_URL_SECRETS_MANAGER, or else moto.
func SecretsManager(t testing.TB) Endpoint {
	t.Helper()
	return endpoint(t, "SECRETS_MANAGER", sharedMoto)
}

// Moto returns an endpoint of all services but DynamoDB: AWS_ENDPOINT_URL, or
// else moto.
func Moto(t testing.TB) Endpoint { t.Helper(); return endpoint(t, "", sharedMoto) }

// endpoint returns the endpoint of a service from the environment, or else the
// process's own.
func endpoint(t testing.TB, service string, own *shared) Endpoint {
	t.Helper()
	url := os.Getenv("AWS_ENDPOINT_URL")
	if service != "" {
		url = cmp.Or(os.Getenv("AWS_ENDPOINT_URL_"+service), url)
	}
	if url != "" {
		e, err := elsewhere(t.Context(), url)
		if err != nil {
			t.Fatalf("emulators: %s: %v", url, err)
		}
		return e
	}
	proc, err := own.get()
	if err != nil {
		t.Fatal(err)
	}
	return local(proc.URL)
}

// elsewhere returns an endpoint from the environment, with its region and
// credentials, if there are any.
func elsewhere(ctx context.Context, url string) (Endpoint, error) {
	options := []func(*config.LoadOptions) error{
		config.WithBaseEndpoint(url),
		config.WithDefaultRegion(Region),
	}
	if os.Getenv("AWS_ACCESS_KEY_ID") == "" && os.Getenv("AWS_PROFILE") == "" {
		// Otherwise the SDK would slowly search for a role of the machine.
		options = append(options, config.WithCredentialsProvider(
			credentials.NewStaticCredentialsProvider(accessKey, secretKey, "")))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	return Endpoint{URL: url, given: &cfg}, err
}

// shared is an emulator shared by the tests of a process.
type shared struct {
	program program

	mu   sync.Mutex
	proc *Process
	err  error // of the only attempt, so that other tests fail at once
}

var (
	sharedDynamoDB = &shared{program: dynamoDBLocal}
	sharedMoto     = &shared{program: moto}
)

// get returns the running emulator. It outlives the first test, so it is not
// bound to a test's context.
func (s *shared) get() (*Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil && s.err == nil {
		s.proc, s.err = s.program.start(context.Background())
	}
	return s.proc, s.err
}

// stop stops the emulator. The next get starts another.
func (s *shared) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.proc.Kill()
	}
	s.proc, s.err = nil, nil
}

// StopAll stops the emulators that this process runs for its tests. On Linux
// they die with it anyway; elsewhere call it in TestMain.
func StopAll() {
	sharedDynamoDB.stop()
	sharedMoto.stop()
}
