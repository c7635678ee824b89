package resources_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLockedObjectsStay: a bucket with Object Lock keeps each version, in the
// form in which the CDK app creates the bucket of copies of audit digests.
func TestLockedObjectsStay(t *testing.T) {
	t.Parallel()
	on, name := where(t), unique()
	_, err := make1(t, on, `"Bucket": {"Type": "AWS::S3::Bucket", "Properties": {
		"BucketName": "`+name+`", "ObjectLockEnabled": true, "VersioningConfiguration": {"Status": "Enabled"},
		"ObjectLockConfiguration": {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 3}}}
	}}`)
	require.NoError(t, err)
	key := "org_1/audit/2026-01-02.jsonl.gz"
	put, err := on.S3.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: &name, Key: &key, Body: strings.NewReader("digest"),
		ChecksumAlgorithm: types.ChecksumAlgorithmCrc32, // moto does not accept the checksum without its header
	})
	require.NoError(t, err)
	_, err = on.S3.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &name, Key: &key, VersionId: put.VersionId})
	require.ErrorContains(t, err, "AccessDenied")
	head, err := on.S3.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: &name, Key: &key, VersionId: put.VersionId})
	require.NoError(t, err)
	assert.Equal(t, "COMPLIANCE", string(head.ObjectLockMode))
}
