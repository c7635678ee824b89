package s3_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"millrace/localstack/emulators"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/platform/blob/s3"
	"millrace/shared/platform/ids"
)

// TestConformance runs the suite against moto. The embedded object store, which
// enforces S3's limits, runs it without a gap.
func TestConformance(t *testing.T) {
	t.Parallel()
	at := emulators.S3(t)
	base := at.Config()
	credentials, err := base.Credentials.Retrieve(t.Context())
	require.NoError(t, err)
	bucket := strings.ToLower("b" + ids.New(time.Now()))
	client := awss3.NewFromConfig(base, func(o *awss3.Options) { o.UsePathStyle = true })
	_, err = client.CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: aws.String(bucket)})
	require.NoError(t, err)
	store := s3.New(s3.Config{
		Bucket: bucket, Endpoint: at.URL, Region: base.Region, PathStyle: true,
		AccessKey: credentials.AccessKeyID, SecretKey: credentials.SecretAccessKey,
	})
	const unsigned = "moto's server looks at no signature and no expiry"
	blobtest.Exercise(t, func(*testing.T) blob.Store { return store },
		blobtest.Gap{Case: "PresignTampered", Reason: unsigned},
		blobtest.Gap{Case: "PresignExpires", Reason: unsigned},
		blobtest.Gap{Case: "MultipartTampered", Reason: unsigned},
		blobtest.Gap{Case: "MultipartUnknown", Reason: "moto answers 500 instead of NoSuchUpload"},
		blobtest.Gap{Case: "PresignFilename", Reason: "moto does not answer with the Content-Disposition that a URL asks for"},
	)
}
