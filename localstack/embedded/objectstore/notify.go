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

// deleted is the event of an object that was deleted, whichever way.
const deleted = "ObjectRemoved:Delete"

// sender hands the gateway's events of objects to a callback.
type sender struct {
	backend backend.Backend
	wants   func(event, key string) bool
	call    func(events.Object)
}

// notifier returns the event sender of cfg, nil when nobody listens.
func notifier(cfg Config, be backend.Backend) s3event.S3EventSender {
	if cfg.OnEvent == nil {
		return nil
	}
	wants := cfg.Wants
	if wants == nil {
		wants = func(string, string) bool { return true }
	}
	return &sender{backend: be, wants: wants, call: cfg.OnEvent}
}

// SendEvent is called by the gateway after an operation succeeded.
func (s *sender) SendEvent(ctx fiber.Ctx, meta s3event.EventMeta) {
	event := strings.TrimPrefix(string(meta.EventName), "s3:")
	// The path's memory is the connection's and reused for the next request.
	bucket, key, _ := strings.Cut(strings.TrimPrefix(strings.Clone(ctx.Path()), "/"), "/")
	about := context.WithoutCancel(ctx.Context())
	switch kind := (events.Object{Event: event}); {
	case meta.EventName == s3event.EventObjectRemovedDeleteObjects:
		keys, err := deletedKeys(ctx.BodyRaw())
		if err != nil {
			slog.Warn("objects deleted without events", "bucket", bucket, "error", err)
		}
		for _, key := range keys {
			s.removed(about, bucket, key)
		}
	case kind.Removed():
		s.removed(about, bucket, key)
	case kind.Created():
		s.created(about, event, bucket, key)
	}
}

// deletedKeys reads the request that deletes many objects at once.
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

func (s *sender) created(ctx context.Context, event, bucket, key string) {
	if !s.wants(event, key) {
		return
	}
	// Asked of the backend, for only some events carry size and ETag.
	out, err := s.backend.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &bucket, Key: &key})
	if err != nil {
		slog.Warn("object created and gone before its event", "bucket", bucket, "key", key, "error", err)
		return
	}
	s.tell(events.Object{
		Event: event, Bucket: bucket, Key: key,
		Size: aws.ToInt64(out.ContentLength), ETag: strings.Clone(strings.Trim(aws.ToString(out.ETag), `"`)),
	})
}

// removed tells of an object that was to be deleted. One that is there failed to
// be, or was stored again, which had its own event.
func (s *sender) removed(ctx context.Context, bucket, key string) {
	if !s.wants(deleted, key) {
		return
	}
	if _, err := s.backend.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &bucket, Key: &key}); err == nil {
		return
	}
	s.tell(events.Object{Event: deleted, Bucket: bucket, Key: key})
}

// tell adds when it was, by which events of one key are put in order.
func (s *sender) tell(o events.Object) {
	now := time.Now()
	o.Time, o.Sequencer = now.UTC(), fmt.Sprintf("%016X", now.UnixNano())
	s.call(o)
}

// Close has nothing to release.
func (s *sender) Close() error { return nil }
