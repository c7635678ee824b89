package s3

import (
	"context"
	"fmt"
	"mime"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"millrace/shared/platform/blob"
)

// PresignGet returns a URL to download an object.
func (s *Store) PresignGet(ctx context.Context, key string, ttl time.Duration, filename string) (string, error) {
	presign, err := s.presigner(ctx, key, ttl)
	if err != nil {
		return "", err
	}
	in := &s3.GetObjectInput{Bucket: s.bucket, Key: &key}
	if filename != "" {
		// FormatMediaType quotes and encodes, so that a name cannot inject headers.
		in.ResponseContentDisposition = aws.String(mime.FormatMediaType("attachment", map[string]string{"filename": filename}))
	}
	req, err := presign.PresignGetObject(ctx, in, s3.WithPresignExpires(ttl))
	if err != nil {
		return "", wrap("presign", key, err)
	}
	return req.URL, nil
}

// PresignPut returns a URL to store an object.
func (s *Store) PresignPut(ctx context.Context, key string, ttl time.Duration) (string, error) {
	presign, err := s.presigner(ctx, key, ttl)
	if err != nil {
		return "", err
	}
	req, err := presign.PresignPutObject(ctx, &s3.PutObjectInput{Bucket: s.bucket, Key: &key}, s3.WithPresignExpires(ttl))
	if err != nil {
		return "", wrap("presign", key, err)
	}
	return req.URL, nil
}

// PresignPart returns a URL to store a part of an upload. The signature covers
// the length, so that a longer body is rejected.
func (s *Store) PresignPart(ctx context.Context, key, uploadID string, part int, size int64, ttl time.Duration) (string, error) {
	presign, err := s.presigner(ctx, key, ttl)
	if err != nil {
		return "", err
	}
	if part < 1 || part > blob.MaxParts || uploadID == "" || size < 1 {
		return "", wrap("presign", key, fmt.Errorf("%w: part %d of %d bytes of upload %q", blob.ErrArgument, part, size, uploadID))
	}
	req, err := presign.PresignUploadPart(ctx, &s3.UploadPartInput{
		Bucket: s.bucket, Key: &key, UploadId: &uploadID, PartNumber: aws.Int32(int32(part)), ContentLength: &size,
	}, s3.WithPresignExpires(ttl))
	if err != nil {
		return "", wrap("presign", key, err)
	}
	return req.URL, nil
}

func (s *Store) presigner(ctx context.Context, key string, ttl time.Duration) (*s3.PresignClient, error) {
	if err := blob.ValidateKey(key); err != nil {
		return nil, err
	}
	if ttl < time.Second || ttl > blob.MaxPresignTTL {
		return nil, wrap("presign", key, fmt.Errorf("%w: lifetime %s", blob.ErrArgument, ttl))
	}
	_, presign, err := s.clients(ctx)
	return presign, err
}
