package objectstore

import (
	"context"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3response"

	"millrace/localstack/embedded/space"
)

// objects extends the posix backend: bodies that end early are rejected, as are
// writes when the disk is nearly full; deletions can be paused; and
// acknowledged writes are synced to disk, if that is enabled.
type objects struct {
	*posix.Posix
	buckets  string // the directory of the buckets, absolute
	metadata meta.MetadataStorer
	sidecars bool // metadata is stored beside the objects, not in their attributes
	space    *space.Space
	log      *slog.Logger
	onLost   func(key, why string) // may be nil
	pauses   *pauses
	durable  *durable // nil: a write is acknowledged when the operating system has it
}

// PutObject stores an object.
func (b *objects) PutObject(ctx context.Context, in s3response.PutObjectInput) (s3response.PutObjectOutput, error) {
	if err := b.admit(ctx, aws.ToInt64(in.ContentLength), in.Body); err != nil {
		return s3response.PutObjectOutput{}, err
	}
	// Called when the body has arrived, so that a slow client is not counted as an
	// overwrite in progress, for which a pause would wait.
	leave := func() {}
	defer func() { leave() }()
	ready := func() (err error) {
		held, err := b.overwrite(ctx, *in.Bucket, *in.Key)
		if err == nil {
			leave = held
		}
		return err
	}
	if in.Body == nil {
		if err := ready(); err != nil {
			return s3response.PutObjectOutput{}, err
		}
	}
	in.Body = whole(in.Body, in.ContentLength, ready)
	begun := b.durable.begin()
	out, err := b.Posix.PutObject(ctx, in)
	return out, b.outcome(ctx, "PutObject", begun, *in.Bucket, *in.Key, err)
}

// CopyObject copies an object.
func (b *objects) CopyObject(ctx context.Context, in s3response.CopyObjectInput) (s3response.CopyObjectOutput, error) {
	if err := b.admit(ctx, b.sourceSize(in.CopySource), nil); err != nil {
		return s3response.CopyObjectOutput{}, err
	}
	leave, err := b.overwrite(ctx, *in.Bucket, *in.Key)
	if err != nil {
		return s3response.CopyObjectOutput{}, err
	}
	defer leave()
	begun := b.durable.begin()
	out, err := b.Posix.CopyObject(ctx, in)
	return out, b.outcome(ctx, "CopyObject", begun, *in.Bucket, *in.Key, err)
}

// CreateMultipartUpload begins an upload.
func (b *objects) CreateMultipartUpload(ctx context.Context, in s3response.CreateMultipartUploadInput) (s3response.InitiateMultipartUploadResult, error) {
	if err := b.admit(ctx, 0, nil); err != nil {
		return s3response.InitiateMultipartUploadResult{}, err
	}
	out, err := b.Posix.CreateMultipartUpload(ctx, in)
	if err != nil {
		return out, b.internal(ctx, "CreateMultipartUpload", *in.Key, b.failure(err))
	}
	err = b.durable.stored(0, *in.Bucket, uploadsKey(*in.Key), uploadKey(*in.Key, out.UploadId))
	return out, b.internal(ctx, "CreateMultipartUpload", *in.Key, err)
}

// UploadPart stores a part of an upload.
func (b *objects) UploadPart(ctx context.Context, in *s3.UploadPartInput) (*s3.UploadPartOutput, error) {
	if err := b.admit(ctx, aws.ToInt64(in.ContentLength), in.Body); err != nil {
		return nil, err
	}
	checked := *in
	checked.Body = whole(in.Body, in.ContentLength, nil)
	begun := b.durable.begin()
	out, err := b.Posix.UploadPart(ctx, &checked)
	return out, b.outcome(ctx, "UploadPart", begun, *in.Bucket, partKey(*in.Key, *in.UploadId, *in.PartNumber), err)
}

// UploadPartCopy creates a part of an upload from an object.
func (b *objects) UploadPartCopy(ctx context.Context, in *s3.UploadPartCopyInput) (s3response.CopyPartResult, error) {
	size := b.sourceSize(in.CopySource)
	if _, length, err := backend.ParseCopySourceRange(size, aws.ToString(in.CopySourceRange)); err == nil {
		size = length
	}
	if err := b.admit(ctx, size, nil); err != nil {
		return s3response.CopyPartResult{}, err
	}
	begun := b.durable.begin()
	out, err := b.Posix.UploadPartCopy(ctx, in)
	return out, b.outcome(ctx, "UploadPartCopy", begun, *in.Bucket, partKey(*in.Key, *in.UploadId, *in.PartNumber), err)
}

// CompleteMultipartUpload joins the parts of an upload. It copies them before
// it removes them.
func (b *objects) CompleteMultipartUpload(ctx context.Context, in *s3.CompleteMultipartUploadInput) (s3response.CompleteMultipartUploadResult, string, error) {
	if err := b.admit(ctx, b.uploadSize(*in.Bucket, *in.Key, aws.ToString(in.UploadId)), nil); err != nil {
		return s3response.CompleteMultipartUploadResult{}, "", err
	}
	leave, err := b.overwrite(ctx, *in.Bucket, *in.Key)
	if err != nil {
		return s3response.CompleteMultipartUploadResult{}, "", err
	}
	defer leave()
	begun := b.durable.begin()
	out, version, err := b.Posix.CompleteMultipartUpload(ctx, in)
	return out, version, b.outcome(ctx, "CompleteMultipartUpload", begun, *in.Bucket, *in.Key, err)
}

// DeleteObject deletes an object.
func (b *objects) DeleteObject(ctx context.Context, in *s3.DeleteObjectInput) (*s3.DeleteObjectOutput, error) {
	leave, err := b.pauses.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	defer b.durable.deletion()()
	out, err := b.Posix.DeleteObject(ctx, in)
	return out, b.internal(ctx, "DeleteObject", *in.Key, err)
}

// DeleteObjects deletes objects.
func (b *objects) DeleteObjects(ctx context.Context, in *s3.DeleteObjectsInput) (s3response.DeleteResult, error) {
	leave, err := b.pauses.enter(ctx)
	if err != nil {
		return s3response.DeleteResult{}, err
	}
	defer leave()
	defer b.durable.deletion()()
	out, err := b.Posix.DeleteObjects(ctx, in)
	return out, b.internal(ctx, "DeleteObjects", "", err)
}

// outcome completes a write of key and makes a successful one durable.
func (b *objects) outcome(ctx context.Context, operation string, begun uint64, bucket, key string, err error) error {
	if err != nil {
		return b.internal(ctx, operation, key, b.failedWrite(bucket, key, err))
	}
	return b.internal(ctx, operation, key, b.durable.stored(begun, bucket, key))
}
