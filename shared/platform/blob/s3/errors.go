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
// among them: a missing bucket is a fault of the deployment, not of a key.
var sentinels = map[string]error{
	"NoSuchKey":          blob.ErrNotFound,
	"NotFound":           blob.ErrNotFound, // HEAD answers have no body to name the code
	"PreconditionFailed": blob.ErrExists,
	"InvalidRange":       blob.ErrRange,
	"NoSuchUpload":       blob.ErrNoUpload,
	"InvalidPart":        blob.ErrBadPart,
	"InvalidPartOrder":   blob.ErrBadPart,
	"EntityTooSmall":     blob.ErrBadPart,
	"ObjectDamaged":      blob.ErrDamaged, // the embedded object store's own
}

// insufficientStorage is the code of servers whose disk is full, which answer 507.
// The SDK does not repeat such a request.
const insufficientStorage = "InsufficientStorage"

// roomAfter is when a write that was refused for want of room may be tried again.
const roomAfter = 10 * time.Second

// translate turns a vendor's error into the port's; others keep their chain, so
// that a cancelled context stays visible.
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
			e.RetryAfter = roomAfter
			return e
		}
	}
	return err
}

// wrap translates err and adds what was being done to which key.
func wrap(op, key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s object %s: %w", op, key, translate(err))
}
