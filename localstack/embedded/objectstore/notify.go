package objectstore

import (
	"context"
	"log/slog"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/gofiber/fiber/v3"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3event"
)

// createdPrefix begins the names of all events for a stored object.
const createdPrefix = "s3:ObjectCreated:"

// createdSender hands the front's events for stored objects to a callback.
type createdSender struct {
	backend backend.Backend
	call    func(bucket, key string, size int64, etag string)
}

// notifier returns the event sender of cfg, nil when nobody listens.
func notifier(cfg Config, be backend.Backend) s3event.S3EventSender {
	if cfg.OnCreated == nil {
		return nil
	}
	return &createdSender{backend: be, call: cfg.OnCreated}
}

// SendEvent is called by the front after an operation succeeded.
func (c *createdSender) SendEvent(ctx fiber.Ctx, event s3event.EventMeta) {
	if !strings.HasPrefix(string(event.EventName), createdPrefix) {
		return
	}
	// The path's memory is the connection's and reused for the next request.
	bucket, key, _ := strings.Cut(strings.TrimPrefix(strings.Clone(ctx.Path()), "/"), "/")
	// Asked of the backend, for only some events carry size and ETag.
	out, err := c.backend.HeadObject(context.WithoutCancel(ctx.Context()), &s3.HeadObjectInput{Bucket: &bucket, Key: &key})
	if err != nil {
		slog.Warn("object created and gone before its event", "bucket", bucket, "key", key, "error", err)
		return
	}
	c.call(bucket, key, aws.ToInt64(out.ContentLength), strings.Clone(strings.Trim(aws.ToString(out.ETag), `"`)))
}

// Close has nothing to release.
func (c *createdSender) Close() error { return nil }
