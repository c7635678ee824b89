package objectstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// ensureBucket creates the bucket by a request, so that its owner and access
// rules are as the server expects.
func ensureBucket(ctx context.Context, endpoint string, cfg Config) error {
	client := s3.New(s3.Options{
		Region: Region, BaseEndpoint: &endpoint, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(cfg.AccessKey, cfg.SecretKey, ""),
	})
	_, err := client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: aws.String(cfg.Bucket)})
	if _, absent := errors.AsType[*types.NotFound](err); absent {
		_, err = client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String(cfg.Bucket)})
	}
	if err != nil {
		return fmt.Errorf("create bucket %s: %w", cfg.Bucket, err)
	}
	return nil
}
