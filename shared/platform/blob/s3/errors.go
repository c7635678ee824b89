package s3

import (
	"errors"
	"fmt"
	"time"

	"github.com/aws/smithy-go"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/errs"
)

// sentinels maps S3's error codes to the port's errors. NoSuchBucket is not
// listed: a missing bucket is a fault of the deployment, not of a key.
var sentinels = map[string]error{
	"NoSuchKey":          blob.ErrNotFound,
	"NotFound":           blob.ErrNotFound, // HEAD responses have no body with a code
	"PreconditionFailed": blob.ErrExists,
	"InvalidRange":       blob.ErrRange,
	"NoSuchUpload":       blob.ErrNoUpload,
	"InvalidPart":        blob.ErrBadPart,
	"InvalidPartOrder":   blob.ErrBadPart,
	"EntityTooSmall":     blob.ErrBadPart,
	"ObjectDamaged":      blob.ErrDamaged, // only from the embedded object store
}

// insufficientStorage is the error code of servers with a full disk, which
// answer 507. The SDK does not retry such a request.
const insufficientStorage = "InsufficientStorage"

// spaceRetryAfter is the retry delay told to clients when a write failed for
// lack of disk space.
const spaceRetryAfter = 10 * time.Second

// translate maps a vendor error to the port's error. Others keep their chain,
// so that a cancelled context stays visible.
func translate(err error) error {
	if err == nil {
		return nil
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		if sentinel, known := sentinels[api.ErrorCode()]; known {
			return sentinel
		}
		if api.ErrorCode() == insufficientStorage {
			e := errs.Wrap(errs.Unavailable, err, "%s", api.ErrorMessage())
			e.RetryAfter = spaceRetryAfter
			return e
		}
	}
	return err
}

// wrap translates err and adds the operation and the key.
func wrap(op, key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s object %s: %w", op, key, translate(err))
}
