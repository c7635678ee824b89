package objectstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/gofiber/fiber/v3"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"
)

// internal logs an error for which S3 has no code and answers for it: the gateway
// would write it to stderr in a form of its own.
func (b *objects) internal(ctx context.Context, operation, key string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := err.(s3err.S3Error); ok { //nolint:errorlint // as the gateway asks: it would not know a wrapped one
		return err
	}
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, context.Canceled) {
		return errHungUp // the client is gone
	}
	b.log.ErrorContext(ctx, "object store: operation failed", "operation", operation, "key", key, "error", err)
	return s3err.GetAPIError(s3err.ErrInternalError)
}

// recovered is middleware that does the same for panics, and for what the
// gateway's own middleware returns.
func (b *objects) recovered(ctx fiber.Ctx) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
		if client, ok := errors.AsType[*fiber.Error](err); err == nil || ok && client.Code < http.StatusInternalServerError {
			return
		}
		b.log.Error("object store: request failed", "method", ctx.Method(), "error", err)
		answer := s3err.GetAPIError(s3err.ErrInternalError)
		ctx.Response().Header.SetContentType(fiber.MIMEApplicationXML)
		err = ctx.Status(answer.StatusCode()).Send(answer.XMLBody("", ""))
	}()
	return ctx.Next()
}

// HeadObject describes an object.
func (b *objects) HeadObject(ctx context.Context, in *s3.HeadObjectInput) (*s3.HeadObjectOutput, error) {
	out, err := b.Posix.HeadObject(ctx, in)
	return out, b.internal(ctx, "HeadObject", aws.ToString(in.Key), err)
}

// ListObjectsV2 lists objects.
func (b *objects) ListObjectsV2(ctx context.Context, in *s3.ListObjectsV2Input) (s3response.ListObjectsV2Result, error) {
	out, err := b.Posix.ListObjectsV2(ctx, in)
	return out, b.internal(ctx, "ListObjectsV2", aws.ToString(in.Prefix), err)
}

// HeadBucket looks the bucket up.
func (b *objects) HeadBucket(ctx context.Context, in *s3.HeadBucketInput) (*s3.HeadBucketOutput, error) {
	out, err := b.Posix.HeadBucket(ctx, in)
	return out, b.internal(ctx, "HeadBucket", "", err)
}

// GetBucketAcl reads who may use a bucket, which each request begins with.
func (b *objects) GetBucketAcl(ctx context.Context, in *s3.GetBucketAclInput) ([]byte, error) {
	out, err := b.Posix.GetBucketAcl(ctx, in)
	return out, b.internal(ctx, "GetBucketAcl", "", err)
}

// AbortMultipartUpload drops an upload.
func (b *objects) AbortMultipartUpload(ctx context.Context, in *s3.AbortMultipartUploadInput) error {
	return b.internal(ctx, "AbortMultipartUpload", aws.ToString(in.Key), b.Posix.AbortMultipartUpload(ctx, in))
}
