// Package s3 is the [blob.Store] driver for Amazon S3 and S3-compatible
// servers.
package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"millrace/shared/platform/awsenv"
	"millrace/shared/platform/awsretry"
	"millrace/shared/platform/blob"
)

// The SDK's retryer is the only layer that retries: up to 4 attempts with
// exponential backoff and jitter, at most 2 s between two attempts.
const (
	maxAttempts = 4
	maxBackoff  = 2 * time.Second
)

// Config selects the bucket and how to reach it.
type Config struct {
	Bucket   string // if empty, every call returns blob.ErrNotConfigured
	Region   string // if empty: us-east-1 with an Endpoint, otherwise the environment's
	Endpoint string // URL of an S3-compatible server; empty means AWS
	// AccessKey and SecretKey are static credentials. If empty, those of
	// the environment apply.
	AccessKey, SecretKey string
	PathStyle            bool   // bucket in the path instead of the host name
	PublicEndpoint       string // URL used in presigned URLs when clients reach the server by another name
}

// Store is the S3 driver. Create it with New.
type Store struct {
	cfg     Config
	bucket  *string
	backoff time.Duration // longest pause between attempts

	mu      sync.Mutex // guards the lazy clients
	client  *s3.Client
	presign *s3.PresignClient
}

var _ blob.Store = (*Store)(nil)

// New returns a store. It makes no request: the client is built on first use,
// so that a function that never uses objects does not pay for it.
func New(cfg Config) *Store {
	return &Store{cfg: cfg, bucket: aws.String(cfg.Bucket), backoff: maxBackoff}
}

// clients returns the client and its presigner. An error, such as failing to
// load the configuration, is not cached: the next call tries again.
func (s *Store) clients(ctx context.Context) (*s3.Client, *s3.PresignClient, error) {
	if s.cfg.Bucket == "" {
		return nil, nil, blob.ErrNotConfigured
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		base, err := s.awsConfig(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("object store: %w", err)
		}
		s.client = s3.NewFromConfig(base, s.options(s.cfg.Endpoint))
		public := s.client
		if s.cfg.PublicEndpoint != "" {
			public = s3.NewFromConfig(base, s.options(s.cfg.PublicEndpoint))
		}
		s.presign = s3.NewPresignClient(public)
	}
	return s.client, s.presign, nil
}

func (s *Store) awsConfig(ctx context.Context) (aws.Config, error) {
	region := s.cfg.Region
	if region == "" && s.cfg.Endpoint != "" {
		region = "us-east-1"
	}
	static := credentials.NewStaticCredentialsProvider(s.cfg.AccessKey, s.cfg.SecretKey, "")
	if s.cfg.AccessKey != "" && region != "" {
		return aws.Config{Region: region, Credentials: static}, nil
	}
	// The clients outlive the first caller, so its cancellation must not apply.
	out, err := awsenv.Load(context.WithoutCancel(ctx))
	if err != nil {
		return aws.Config{}, err
	}
	out.Region = cmp.Or(region, out.Region)
	if s.cfg.AccessKey != "" {
		out.Credentials = static
	}
	return out, nil
}

func (s *Store) options(endpoint string) func(*s3.Options) {
	return func(o *s3.Options) {
		o.UsePathStyle = s.cfg.PathStyle
		// Ranges have no checksum: the SDK would log a line for each that is read.
		o.DisableLogOutputChecksumValidationSkipped = true
		o.Retryer = retry.AddWithErrorCodes(awsretry.New(maxAttempts, s.backoff), "ConditionalRequestConflict")
		if endpoint != "" {
			o.BaseEndpoint = aws.String(strings.TrimSuffix(endpoint, "/"))
		}
		if !s.checksums() {
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
			o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		}
	}
}

// checksums reports whether bodies carry trailing checksums, which is the case
// on AWS only. Other servers often lack them, and the SDK rejects them for
// streams without TLS.
func (s *Store) checksums() bool { return s.cfg.Endpoint == "" }

// Check tests whether the bucket is reachable.
func (s *Store) Check(ctx context.Context) error {
	client, _, err := s.clients(ctx)
	if err != nil {
		return err
	}
	if _, err := client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: s.bucket}); err != nil {
		err = translate(err)
		if errors.Is(err, blob.ErrNotFound) {
			return fmt.Errorf("bucket %s does not exist", s.cfg.Bucket)
		}
		return fmt.Errorf("look up bucket %s: %w", s.cfg.Bucket, err)
	}
	return nil
}

// open validates the keys and returns the client.
func (s *Store) open(ctx context.Context, keys ...string) (*s3.Client, error) {
	for _, key := range keys {
		if err := blob.ValidateKey(key); err != nil {
			return nil, err
		}
	}
	client, _, err := s.clients(ctx)
	return client, err
}
