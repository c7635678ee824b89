package s3

import (
	"cmp"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
)

// CreateMultipart begins an upload.
func (s *Store) CreateMultipart(ctx context.Context, key, mediaType string) (string, error) {
	client, err := s.open(ctx, key)
	if err != nil {
		return "", err
	}
	out, err := client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
		Bucket: s.bucket, Key: &key, ContentType: aws.String(contentType(mediaType)),
	})
	if err != nil {
		return "", wrap("begin upload of", key, err)
	}
	return aws.ToString(out.UploadId), nil
}

// CompleteMultipart completes an upload.
func (s *Store) CompleteMultipart(ctx context.Context, key, uploadID string, parts []blob.Part) (blob.Object, error) {
	client, err := s.open(ctx, key)
	if err != nil {
		return blob.Object{}, err
	}
	parts, err = inOrder(parts)
	if err != nil {
		return blob.Object{}, wrap("complete upload of", key, err)
	}
	if uploadID == "" {
		return blob.Object{}, wrap("complete upload of", key, blob.ErrNoUpload)
	}
	completed := make([]types.CompletedPart, len(parts))
	for i, p := range parts {
		completed[i] = types.CompletedPart{PartNumber: aws.Int32(int32(p.Number)), ETag: aws.String(`"` + p.ETag + `"`)}
	}
	_, err = client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: s.bucket, Key: &key, UploadId: &uploadID,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: completed},
	})
	if err = wrap("complete upload of", key, err); err != nil && !errors.Is(err, blob.ErrNoUpload) {
		return blob.Object{}, err
	}
	return s.joined(ctx, key, parts, err)
}

// joined returns the object assembled from parts. completed is the result of
// the completion request. The object's ETag, which derives from those of the
// parts, is decisive:
//   - A missing upload may be one that we completed: AWS then forgets it. The
//     ETag of an object that is encrypted with a KMS key derives from nothing that
//     a client knows, except that its suffix is the number of parts.
//   - Other servers may report success when any object exists under the key, or
//     while another completion of the upload is in progress.
func (s *Store) joined(ctx context.Context, key string, parts []blob.Part, completed error) (blob.Object, error) {
	want := joinedETag(parts)
	trusted := completed == nil && (s.checksums() || want == "")
	wait := 20 * time.Millisecond
	for {
		obj, sealed, err := s.head(ctx, key)
		switch {
		case err == nil && (trusted || matches(obj.ETag, want, sealed, len(parts))):
			return obj, nil
		case err != nil && !errors.Is(err, blob.ErrNotFound):
			return blob.Object{}, err
		case completed != nil:
			return blob.Object{}, completed
		case wait > time.Second/2:
			return blob.Object{}, wrap("complete upload of", key, blob.ErrNoUpload)
		}
		if err := clock.Sleep(ctx, wait); err != nil {
			return blob.Object{}, wrap("complete upload of", key, err)
		}
		wait *= 2
	}
}

// matches reports whether the ETag of an object is that of a number of parts
// with the joined ETag want. sealed means that a KMS key encrypts the object.
func matches(etag, want string, sealed bool, parts int) bool {
	if sealed {
		return strings.HasSuffix(etag, fmt.Sprintf("-%d", parts))
	}
	return etag == want && want != ""
}

// AbortMultipart discards an upload.
func (s *Store) AbortMultipart(ctx context.Context, key, uploadID string) error {
	client, err := s.open(ctx, key)
	if err != nil || uploadID == "" {
		return err
	}
	_, err = client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: s.bucket, Key: &key, UploadId: &uploadID})
	if err = wrap("abort upload of", key, err); errors.Is(err, blob.ErrNoUpload) || errors.Is(err, blob.ErrNotFound) {
		return nil
	}
	return err
}

// inOrder sorts and checks parts and strips the quotes of their ETags.
func inOrder(parts []blob.Part) ([]blob.Part, error) {
	if len(parts) == 0 || len(parts) > blob.MaxParts {
		return nil, fmt.Errorf("%w: %d parts", blob.ErrBadPart, len(parts))
	}
	parts = slices.Clone(parts)
	slices.SortFunc(parts, func(a, b blob.Part) int { return cmp.Compare(a.Number, b.Number) })
	for i := range parts {
		p := &parts[i]
		p.ETag = strings.Trim(p.ETag, `"`)
		switch {
		case p.Number < 1 || p.Number > blob.MaxParts:
			return nil, fmt.Errorf("%w: number %d", blob.ErrBadPart, p.Number)
		case i > 0 && parts[i-1].Number == p.Number:
			return nil, fmt.Errorf("%w: number %d twice", blob.ErrBadPart, p.Number)
		case p.ETag == "":
			return nil, fmt.Errorf("%w: number %d has no ETag", blob.ErrBadPart, p.Number)
		}
	}
	return parts, nil
}

// joinedETag computes the ETag that S3 gives an object of these parts: the MD5
// of their MD5s, followed by their count. It returns the empty string if an
// ETag cannot be an MD5.
func joinedETag(parts []blob.Part) string {
	sum := md5.New()
	for _, p := range parts {
		part, err := hex.DecodeString(p.ETag)
		if err != nil || len(part) != md5.Size {
			return ""
		}
		sum.Write(part)
	}
	return fmt.Sprintf("%x-%d", sum.Sum(nil), len(parts))
}
