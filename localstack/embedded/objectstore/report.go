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

// internal logs an error that has no S3 code and returns an internal error. The
// gateway would write it to stderr in its own format.
func (b *objects) internal(ctx context.Context, operation, key string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := err.(s3err.S3Error); ok { //nolint:errorlint // the gateway does not recognise wrapped errors
		return err
	}
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, context.Canceled) {
		return errHungUp // the client has disconnected
	}
	b.log.ErrorContext(ctx, "object store: operation failed", "operation", operation, "key", key, "error", err)
	return s3err.GetAPIError(s3err.ErrInternalError)
}

// recovered is middleware that does the same for panics and for errors of the
// gateway's middleware.
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

// HeadBucket tests whether the bucket exists.
func (b *objects) HeadBucket(ctx context.Context, in *s3.HeadBucketInput) (*s3.HeadBucketOutput, error) {
	out, err := b.Posix.HeadBucket(ctx, in)
	return out, b.internal(ctx, "HeadBucket", "", err)
}

// GetBucketAcl returns the bucket's access rules, which every request reads
// first.
func (b *objects) GetBucketAcl(ctx context.Context, in *s3.GetBucketAclInput) ([]byte, error) {
	out, err := b.Posix.GetBucketAcl(ctx, in)
	return out, b.internal(ctx, "GetBucketAcl", "", err)
}

// AbortMultipartUpload discards an upload.
func (b *objects) AbortMultipartUpload(ctx context.Context, in *s3.AbortMultipartUploadInput) error {
	return b.internal(ctx, "AbortMultipartUpload", aws.ToString(in.Key), b.Posix.AbortMultipartUpload(ctx, in))
}
