package objectstore

import (
	"context"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/gofiber/fiber/v3"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3event"
	"github.com/versity/versitygw/s3response"

	"millrace/events"
)

// deleted is the event of an object that any operation deleted.
const deleted = "ObjectRemoved:Delete"

// sender passes the gateway's object events to a callback.
type sender struct {
	backend backend.Backend
	wanted  func(bucket, event, key string) bool
	onEvent func(events.Object)
}

// notifier returns the event sender of cfg, or nil if there is no callback.
func notifier(cfg Config, be backend.Backend) s3event.S3EventSender {
	if cfg.OnEvent == nil {
		return nil
	}
	wanted := cfg.Wants
	if wanted == nil {
		wanted = func(string, string, string) bool { return true }
	}
	return &sender{backend: be, wanted: wanted, onEvent: cfg.OnEvent}
}

// SendEvent implements the gateway's interface. The gateway calls it after an
// operation succeeded.
func (s *sender) SendEvent(ctx fiber.Ctx, meta s3event.EventMeta) {
	event := strings.TrimPrefix(string(meta.EventName), "s3:")
	// The path shares the connection's memory, which the next request reuses.
	bucket, key, _ := strings.Cut(strings.TrimPrefix(strings.Clone(ctx.Path()), "/"), "/")
	detached := context.WithoutCancel(ctx.Context())
	switch kind := (events.Object{Event: event}); {
	case meta.EventName == s3event.EventObjectRemovedDeleteObjects:
		keys, err := deletedKeys(ctx.BodyRaw())
		if err != nil {
			slog.Warn("objects deleted without events", "bucket", bucket, "error", err)
		}
		for _, key := range keys {
			s.removed(detached, bucket, key)
		}
	case kind.Removed():
		s.removed(detached, bucket, key)
	case kind.Created():
		s.created(detached, event, bucket, key)
	}
}

// deletedKeys returns the keys of a request that deletes many objects.
func deletedKeys(body []byte) ([]string, error) {
	var in s3response.DeleteObjects
	if err := xml.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	keys := make([]string, len(in.Objects))
	for i, o := range in.Objects {
		keys[i] = aws.ToString(o.Key)
	}
	return keys, nil
}

// created reports a stored object.
func (s *sender) created(ctx context.Context, event, bucket, key string) {
	if !s.wanted(bucket, event, key) {
		return
	}
	// Not every event has the size and the ETag, so get them from the backend.
	out, err := s.backend.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &bucket, Key: &key})
	if err != nil {
		slog.Warn("object deleted before its creation event was sent", "bucket", bucket, "key", key, "error", err)
		return
	}
	s.send(events.Object{
		Event: event, Bucket: bucket, Key: key,
		Size: aws.ToInt64(out.ContentLength), ETag: strings.Clone(strings.Trim(aws.ToString(out.ETag), `"`)),
	})
}

// removed reports a deleted object. If the object exists, then the deletion
// failed, or the object was stored again, which has its own event.
func (s *sender) removed(ctx context.Context, bucket, key string) {
	if !s.wanted(bucket, deleted, key) {
		return
	}
	if _, err := s.backend.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &bucket, Key: &key}); err == nil {
		return
	}
	s.send(events.Object{Event: deleted, Bucket: bucket, Key: key})
}

// send sets the time and the sequencer, which orders the events of one key, and
// calls the callback.
func (s *sender) send(o events.Object) {
	now := time.Now()
	o.Time, o.Sequencer = now.UTC(), fmt.Sprintf("%016X", now.UnixNano())
	s.onEvent(o)
}

// Close does nothing.
func (s *sender) Close() error { return nil }
