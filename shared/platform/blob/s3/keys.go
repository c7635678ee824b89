package s3

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"millrace/shared/platform/blob"
)

// deleteBatch is the most keys that one DeleteObjects takes.
const deleteBatch = 1000

// Delete removes objects in batches. It goes on after a batch that fails.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	client, err := s.open(ctx, keys...)
	if err != nil || len(keys) == 0 {
		return err
	}
	var failed blob.DeleteError
	for batch := range slices.Chunk(keys, deleteBatch) {
		objects := make([]types.ObjectIdentifier, len(batch))
		for i := range batch {
			objects[i].Key = &batch[i]
		}
		out, err := client.DeleteObjects(ctx, &s3.DeleteObjectsInput{
			Bucket: s.bucket, Delete: &types.Delete{Objects: objects, Quiet: aws.Bool(true)},
		})
		if err != nil {
			failed.Keys = append(failed.Keys, batch...)
			failed.Cause = first(failed.Cause, translate(err))
			continue
		}
		for _, e := range out.Errors {
			cause := translate(&smithy.GenericAPIError{Code: aws.ToString(e.Code), Message: aws.ToString(e.Message)})
			if errors.Is(cause, blob.ErrNotFound) {
				continue
			}
			failed.Keys = append(failed.Keys, aws.ToString(e.Key))
			failed.Cause = first(failed.Cause, cause)
		}
	}
	if len(failed.Keys) > 0 {
		return &failed
	}
	return nil
}

func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// List returns a page of objects.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]blob.Object, string, error) {
	client, err := s.open(ctx)
	if err != nil {
		return nil, "", err
	}
	if limit < 1 || limit > blob.MaxPageSize {
		limit = blob.MaxPageSize
	}
	in := &s3.ListObjectsV2Input{Bucket: s.bucket, Prefix: &prefix, MaxKeys: aws.Int32(int32(limit))}
	if after != "" {
		in.StartAfter = &after
	}
	out, err := client.ListObjectsV2(ctx, in)
	if err != nil {
		return nil, "", wrap("list", prefix, err)
	}
	objects := make([]blob.Object, len(out.Contents))
	for i, o := range out.Contents {
		objects[i] = blob.Object{
			Key: aws.ToString(o.Key), Size: aws.ToInt64(o.Size),
			ETag: unquote(o.ETag), Modified: aws.ToTime(o.LastModified).UTC(),
		}
	}
	next := ""
	if aws.ToBool(out.IsTruncated) && len(objects) > 0 {
		next = objects[len(objects)-1].Key
	}
	return objects, next, nil
}
