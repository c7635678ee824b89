package server

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"syscall"

	"millrace/localstack/embedded/objectstore"
	"millrace/shared/blob"
	"millrace/shared/blob/s3"
)

// bucket is the one bucket of the object store.
const bucket = "artifacts"

// openObjects starts the object store: where it was told to listen, else where
// it listened last, else on any free port.
func (s *Server) openObjects(ctx context.Context, keys *secrets) (blob.Store, error) {
	cfg := objectstore.Config{
		Dir: s.cfg.Dir, AccessKey: keys.S3AccessKey, SecretKey: keys.S3SecretKey, Bucket: bucket,
		Listen: cmp.Or(s.cfg.S3Listen, keys.S3Address),
	}
	var err error
	s.objects, err = objectstore.Start(ctx, cfg)
	if s.cfg.S3Listen == "" && errors.Is(err, syscall.EADDRINUSE) {
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
	return s3.New(s3.Config{
		Bucket: bucket, Region: objectstore.Region, Endpoint: s.objects.Endpoint(),
		AccessKey: keys.S3AccessKey, SecretKey: keys.S3SecretKey, PathStyle: true,
	}), nil
}
