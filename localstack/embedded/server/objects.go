package server

import (
	"cmp"
	"context"
	"regexp"
	"strings"

	"millrace/events"
	"millrace/functions/catalog"
	"millrace/localstack/embedded/objectstore"
	"millrace/localstack/embedded/runtime"
	"millrace/localstack/embedded/space"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/blob/s3"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/telemetry"
)

// bucket is the name of the bucket of the service's own objects.
const bucket = "artifacts"

// openObjects starts the object store on the configured address, otherwise on
// the last one, otherwise on a free port.
func (s *Server) openObjects(ctx context.Context, keys *secrets, queues queue.Queues, metrics *telemetry.Metrics) (blob.Store, error) {
	cfg := objectstore.Config{
		Dir: s.cfg.Dir, AccessKey: keys.S3AccessKey, SecretKey: keys.S3SecretKey, Bucket: bucket, Space: s.space, FullSync: s.cfg.FullSync, Origins: s.cfg.origins, Log: s.cfg.Log, OnLost: s.lost(metrics),
		Listen:  cmp.Or(s.cfg.S3Listen, keys.S3Address),
		UserKey: s.credentials.AWSAccessKeyID, UserSecret: s.credentials.AWSSecretAccessKey,
	}
	if to, found := catalog.ObjectsTo(s.specs); found {
		trigger := to.Trigger.Objects
		cfg.Wants = func(in, event, key string) bool {
			return trigger.Users == (in != bucket) && trigger.Matches(event, key)
		}
		cfg.OnEvent = s.tell(queues)
	}
	var err error
	s.objects, err = objectstore.Start(ctx, cfg)
	if s.cfg.S3Listen == "" && objectstore.AddressInUse(err) {
		cfg.Listen = ""
		s.objects, err = objectstore.Start(ctx, cfg)
	}
	if err != nil {
		return nil, err
	}
	s.closing(s.objects.Close)
	if address := strings.TrimPrefix(s.objects.Endpoint(), "http://"); s.cfg.S3Listen == "" && address != keys.S3Address {
		keys.S3Address = address
		if err := keys.save(s.cfg.Dir); err != nil {
			return nil, err
		}
	}
	if err := s.credentials.SetS3URL(s.cfg.Dir, s.objects.Endpoint()); err != nil {
		return nil, err
	}
	return roomy{s3.New(s3.Config{
		Bucket: bucket, Region: objectstore.Region, Endpoint: s.objects.Endpoint(),
		AccessKey: keys.S3AccessKey, SecretKey: keys.S3SecretKey, PathStyle: true,
	}), s.space}, nil
}

// roomy is an object store that is unhealthy while its disk is full.
type roomy struct {
	blob.Store
	space *space.Space
}

// Check tests whether the bucket is available. Errors: errs.Unavailable, with
// the reason, also while writes are rejected for lack of disk space.
func (w roomy) Check(ctx context.Context) error {
	if err := w.space.Check(ctx); err != nil {
		return err
	}
	return w.Store.Check(ctx)
}

// referred matches the objects that records refer to and that must exist: code,
// specs, inputs and outputs of runs. Logs move while they are read.
var referred = regexp.MustCompile(`^[^/]+/(artifacts/|specs/|runs/[^/]+/(out/|list/|input))`)

// lost returns a function that logs and counts objects that are missing or
// damaged.
func (s *Server) lost(metrics *telemetry.Metrics) func(key, why string) {
	return func(key, why string) {
		if why == objectstore.Missing && !referred.MatchString(key) {
			return
		}
		s.cfg.Log.Error("object is missing or damaged", "key", key, "why", why)
		metrics.Count(telemetry.ObjectsLost, telemetry.Dimensions{Code: why})
	}
}

// tell returns a function that sends an event of the bucket to its queue, as S3
// does. If sending fails the event is lost, but the operation on the object
// succeeds.
func (s *Server) tell(queues queue.Queues) func(events.Object) {
	return func(o events.Object) {
		err := queues.Send(context.Background(), events.ObjectQueue, queue.Message{Body: events.WriteObject(runtime.Region, o)})
		if err != nil {
			s.cfg.Log.Error("event of an object lost", "event", o.Event, "key", o.Key, "error", err)
		}
	}
}
