package objectstore

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3response"

	"millrace/localstack/embedded/space"
)

// objects is the posix backend with what it lacks: bodies that end early are
// refused, and so are writes when the disk is nearly full; and what is acknowledged
// is on the disk, if that is asked for.
type objects struct {
	*posix.Posix
	buckets  string // the directory of the buckets, absolute
	metadata meta.MetadataStorer
	space    *space.Space
	durable  *durable // nil: a write is acknowledged when the operating system has it
}

// PutObject stores an object.
func (b *objects) PutObject(ctx context.Context, in s3response.PutObjectInput) (s3response.PutObjectOutput, error) {
	if err := b.admit(ctx, aws.ToInt64(in.ContentLength), in.Body); err != nil {
		return s3response.PutObjectOutput{}, err
	}
	in.Body = whole(in.Body, in.ContentLength)
	out, err := b.Posix.PutObject(ctx, in)
	return out, b.outcome(*in.Bucket, *in.Key, err)
}

// CopyObject copies an object.
func (b *objects) CopyObject(ctx context.Context, in s3response.CopyObjectInput) (s3response.CopyObjectOutput, error) {
	if err := b.admit(ctx, b.sourceSize(in.CopySource), nil); err != nil {
		return s3response.CopyObjectOutput{}, err
	}
	out, err := b.Posix.CopyObject(ctx, in)
	return out, b.outcome(*in.Bucket, *in.Key, err)
}

// CreateMultipartUpload begins an upload.
func (b *objects) CreateMultipartUpload(ctx context.Context, in s3response.CreateMultipartUploadInput) (s3response.InitiateMultipartUploadResult, error) {
	if err := b.admit(ctx, 0, nil); err != nil {
		return s3response.InitiateMultipartUploadResult{}, err
	}
	out, err := b.Posix.CreateMultipartUpload(ctx, in)
	if err != nil {
		return out, b.failure(err)
	}
	return out, b.durable.stored(*in.Bucket, uploadsKey(*in.Key), uploadKey(*in.Key, out.UploadId))
}

// UploadPart stores a part of an upload.
func (b *objects) UploadPart(ctx context.Context, in *s3.UploadPartInput) (*s3.UploadPartOutput, error) {
	if err := b.admit(ctx, aws.ToInt64(in.ContentLength), in.Body); err != nil {
		return nil, err
	}
	checked := *in
	checked.Body = whole(in.Body, in.ContentLength)
	out, err := b.Posix.UploadPart(ctx, &checked)
	return out, b.outcome(*in.Bucket, partKey(*in.Key, *in.UploadId, *in.PartNumber), err)
}

// UploadPartCopy makes a part of an upload from an object.
func (b *objects) UploadPartCopy(ctx context.Context, in *s3.UploadPartCopyInput) (s3response.CopyPartResult, error) {
	size := b.sourceSize(in.CopySource)
	if _, length, err := backend.ParseCopySourceRange(size, aws.ToString(in.CopySourceRange)); err == nil {
		size = length
	}
	if err := b.admit(ctx, size, nil); err != nil {
		return s3response.CopyPartResult{}, err
	}
	out, err := b.Posix.UploadPartCopy(ctx, in)
	return out, b.outcome(*in.Bucket, partKey(*in.Key, *in.UploadId, *in.PartNumber), err)
}

// CompleteMultipartUpload joins the parts of an upload, of which it makes a copy
// before it removes them.
func (b *objects) CompleteMultipartUpload(ctx context.Context, in *s3.CompleteMultipartUploadInput) (s3response.CompleteMultipartUploadResult, string, error) {
	if err := b.admit(ctx, b.uploadSize(*in.Bucket, *in.Key, aws.ToString(in.UploadId)), nil); err != nil {
		return s3response.CompleteMultipartUploadResult{}, "", err
	}
	out, version, err := b.Posix.CompleteMultipartUpload(ctx, in)
	return out, version, b.outcome(*in.Bucket, *in.Key, err)
}

// outcome ends a write of key: one that succeeded is made durable.
func (b *objects) outcome(bucket, key string, err error) error {
	if err != nil {
		return b.failedWrite(bucket, key, err)
	}
	return b.durable.stored(bucket, key)
}

// sourceSize is the size of the object that is to be copied, 0 for one that the
// backend will not find.
func (b *objects) sourceSize(source *string) int64 {
	bucket, key, _, err := backend.ParseCopySource(aws.ToString(source))
	if err != nil || !filepath.IsLocal(filepath.Join(bucket, key)) {
		return 0
	}
	info, err := os.Stat(b.path(bucket, key))
	if err != nil || info.IsDir() {
		return 0
	}
	return info.Size()
}

// uploadSize is how many bytes an upload's parts have.
func (b *objects) uploadSize(bucket, key, id string) (size int64) {
	if !filepath.IsLocal(id) {
		return 0
	}
	parts, err := os.ReadDir(b.path(bucket, uploadKey(key, id)))
	if err != nil {
		return 0
	}
	for _, part := range parts {
		if info, err := part.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
	}
	return size
}

// path is the file of an object.
func (b *objects) path(bucket, key string) string { return filepath.Join(b.buckets, bucket, key) }

// uploadsKey is where the backend keeps the uploads of a key, below its bucket.
func uploadsKey(key string) string {
	return filepath.Join(posix.MetaTmpMultipartDir, fmt.Sprintf("%x", sha256.Sum256([]byte(key))))
}

func uploadKey(key, id string) string { return filepath.Join(uploadsKey(key), id) }

func partKey(key, id string, part int32) string {
	return filepath.Join(uploadKey(key, id), fmt.Sprint(part))
}
