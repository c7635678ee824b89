package objectstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	aws3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/objectstore"
	"millrace/shared/platform/blob"
)

// TestUsersReachTheirOwnBuckets and no others, and these deliver events.
func TestUsersReachTheirOwnBuckets(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.UserKey, cfg.UserSecret = "user-access", "user-secret-of-some-length"
	f := start(t, cfg)
	_, err := blob.PutBytes(t.Context(), f.store, "org/private", []byte("secret"), blob.PutOptions{})
	require.NoError(t, err)
	client := func(key, secret string) *aws3.Client {
		return aws3.New(aws3.Options{
			Region: objectstore.Region, BaseEndpoint: aws.String(f.server.Endpoint()), UsePathStyle: true,
			Credentials: credentials.NewStaticCredentialsProvider(key, secret, ""),
		})
	}
	users, own := client(cfg.UserKey, cfg.UserSecret), aws.String("landing")
	_, err = users.CreateBucket(t.Context(), &aws3.CreateBucketInput{Bucket: own})
	require.NoError(t, err)
	_, err = users.PutObject(t.Context(), &aws3.PutObjectInput{Bucket: own, Key: aws.String("in/ü.csv"), Body: strings.NewReader("12345")})
	require.NoError(t, err)
	delivered := []string{"ObjectCreated:Put landing in/ü.csv 5 827ccb0eea8a706c4c34a16891f84e7b"}
	assert.Equal(t, delivered, f.events.under("in/"))

	others, key := aws.String(bucket), aws.String("org/private")
	for name, do := range map[string]func() error{
		"get": func() error {
			_, err := users.GetObject(t.Context(), &aws3.GetObjectInput{Bucket: others, Key: key})
			return err
		},
		"head": func() error {
			_, err := users.HeadObject(t.Context(), &aws3.HeadObjectInput{Bucket: others, Key: key})
			return err
		},
		"list": func() error {
			_, err := users.ListObjectsV2(t.Context(), &aws3.ListObjectsV2Input{Bucket: others})
			return err
		},
		"put": func() error {
			_, err := users.PutObject(t.Context(), &aws3.PutObjectInput{Bucket: others, Key: key, Body: strings.NewReader("x")})
			return err
		},
		"delete": func() error {
			_, err := users.DeleteObject(t.Context(), &aws3.DeleteObjectInput{Bucket: others, Key: key})
			return err
		},
		"copy": func() error {
			_, err := users.CopyObject(t.Context(), &aws3.CopyObjectInput{Bucket: own, Key: aws.String("copy"), CopySource: aws.String(bucket + "/org/private")})
			return err
		},
		"remove": func() error {
			_, err := users.DeleteBucket(t.Context(), &aws3.DeleteBucketInput{Bucket: others})
			return err
		},
		"create": func() error {
			_, err := users.CreateBucket(t.Context(), &aws3.CreateBucketInput{Bucket: others})
			return err
		},
		"policy": func() error {
			_, err := users.DeleteBucketPolicy(t.Context(), &aws3.DeleteBucketPolicyInput{Bucket: others})
			return err
		},
		"wrong secret": func() error {
			_, err := client(cfg.UserKey, "wrong").ListObjectsV2(t.Context(), &aws3.ListObjectsV2Input{Bucket: own})
			return err
		},
		"no key": func() error {
			_, err := client("", "").ListObjectsV2(t.Context(), &aws3.ListObjectsV2Input{Bucket: own})
			return err
		},
	} {
		err := do()
		require.Error(t, err, name)
		if refused, ok := errors.AsType[smithy.APIError](err); ok {
			assert.Contains(t, []string{"AccessDenied", "Forbidden", "SignatureDoesNotMatch", "BucketAlreadyExists"}, refused.ErrorCode(), name)
		}
	}
	data, _, err := blob.GetBytes(t.Context(), f.store, "org/private", 100)
	require.NoError(t, err)
	assert.Equal(t, "secret", string(data))
	assert.Len(t, f.events.under(""), 2, "that of the first object, too")
}
