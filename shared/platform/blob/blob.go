// Package blob is the port to the object store: artifacts, task outputs, log
// archives and everything else that is too large for a table item.
//
// Drivers translate their vendor's errors into the sentinels below, so callers
// use errors.Is and never see an SDK type.
package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Errors of a [Store]. Drivers wrap them with the operation and the key.
var (
	ErrNotFound      = errors.New("object not found")
	ErrExists        = errors.New("object already exists")
	ErrTooLarge      = errors.New("object is larger than the limit")
	ErrSize          = errors.New("body does not have the announced size")
	ErrRange         = errors.New("range is outside the object")
	ErrChanged       = errors.New("object was replaced while it was read")
	ErrDamaged       = errors.New("object is damaged: its content is not what was stored")
	ErrKey           = errors.New("invalid object key")
	ErrArgument      = errors.New("invalid object store argument")
	ErrNoUpload      = errors.New("multipart upload does not exist")
	ErrBadPart       = errors.New("multipart upload part is missing, wrong or too small")
	ErrNotConfigured = errors.New("object store is not configured")
)

// Limits that every driver shares with S3.
const (
	MaxKeyBytes   = 1024               // of a whole key
	MaxPageSize   = 1000               // objects in one page of List
	MaxParts      = 10_000             // parts of one multipart upload
	MinPartSize   = 5 << 20            // bytes of every part but the last
	MaxPresignTTL = 7 * 24 * time.Hour // lifetime of a presigned URL
)

// Object describes a stored object.
type Object struct {
	Key         string
	Size        int64  // bytes of the whole object, also when a range was asked for
	ETag        string // opaque, without quotes; changes with the content
	ContentType string // empty from List and after Put
	Modified    time.Time
}

// Range is a part of an object.
type Range struct {
	Offset int64 // first byte, from 0
	Length int64 // bytes; 0 means to the end. A range that passes the end is truncated there
}

// PutOptions qualifies a Put.
type PutOptions struct {
	ContentType     string // application/octet-stream when empty
	ContentEncoding string // e.g. gzip; the body is stored as given
	IfAbsent        bool   // fail with ErrExists if the key is taken
}

// Part names an uploaded part of a multipart upload.
type Part struct {
	Number int    // 1 to MaxParts
	ETag   string // as returned by the upload of the part, with or without quotes
}

// Store is an object store with one bucket. It is safe for concurrent use.
//
// Every method with a key returns ErrKey if [ValidateKey] rejects the key, and
// ErrNotConfigured if no bucket is configured, without contacting the store.
type Store interface {
	// Put stores size bytes of body, streaming them: a body that is not an
	// io.Seeker is read once and cannot be retried. Nothing is stored if body
	// fails. Modified is zero in the returned object. Errors: ErrExists (with
	// IfAbsent; it may be the caller's own write if the response of an earlier
	// attempt was lost), ErrSize if body is shorter or longer than size.
	Put(ctx context.Context, key string, body io.Reader, size int64, opts PutOptions) (Object, error)

	// Get opens an object, or the range rng of it if rng is not nil. The caller
	// closes the reader. Errors: ErrNotFound, ErrRange if the range begins at or
	// after the end, ErrArgument for a negative offset or length, ErrDamaged from
	// a store that verifies checksums when a whole object is read; the stream of a
	// large damaged object ends early instead.
	Get(ctx context.Context, key string, rng *Range) (io.ReadCloser, Object, error)

	// Head describes an object. Errors: ErrNotFound.
	Head(ctx context.Context, key string) (Object, error)

	// Delete removes objects. Missing objects are not an error. Errors:
	// *DeleteError with the keys that may still exist.
	Delete(ctx context.Context, keys ...string) error

	// List returns up to limit objects whose keys begin with prefix and sort after
	// the key after, in byte order. A limit outside 1 to MaxPageSize means
	// MaxPageSize. next is the after of the following page, empty at the end. The
	// prefix need not end at a slash. Objects carry Key, Size, ETag and Modified.
	List(ctx context.Context, prefix, after string, limit int) (objects []Object, next string, err error)

	// Copy copies an object within the store, replacing the target. Errors:
	// ErrNotFound.
	Copy(ctx context.Context, from, to string) error

	// PresignGet returns a URL that serves the object with GET for ttl, without
	// credentials, as a download named filename if that is not empty. It does not
	// check that the object exists. Errors: ErrArgument for a ttl under a second
	// or over MaxPresignTTL.
	PresignGet(ctx context.Context, key string, ttl time.Duration, filename string) (string, error)

	// PresignPut returns a URL that stores the body of a PUT under key for
	// ttl. Errors: ErrArgument as for PresignGet.
	PresignPut(ctx context.Context, key string, ttl time.Duration) (string, error)

	// CreateMultipart begins a multipart upload. Nothing is visible under key
	// until the upload is completed.
	CreateMultipart(ctx context.Context, key, contentType string) (uploadID string, err error)

	// PresignPart returns a URL that stores the body of a PUT of exactly size
	// bytes as one part, for ttl. The ETag header of the response goes into
	// [Part]. Errors: ErrArgument for a part outside 1 to MaxParts, an empty
	// uploadID or a size under 1, and as for PresignGet.
	PresignPart(ctx context.Context, key, uploadID string, part int, size int64, ttl time.Duration) (string, error)

	// CompleteMultipart assembles the object from the parts, in order of their
	// numbers. Completing again with the same parts returns the same object while
	// it exists. Errors: ErrNoUpload for an upload that is unknown, aborted, or
	// completed with other parts; ErrBadPart for no parts, a duplicate number, a
	// part that was not uploaded or has another ETag, and a part under MinPartSize
	// that is not the last.
	CompleteMultipart(ctx context.Context, key, uploadID string, parts []Part) (Object, error)

	// AbortMultipart discards an upload and its parts. An unknown upload is not an
	// error.
	AbortMultipart(ctx context.Context, key, uploadID string) error

	// Check tests whether the bucket is reachable, for health reports. It returns
	// nil, ErrNotConfigured or the failure.
	Check(ctx context.Context) error
}

// DeleteError lists the keys that a Delete could not remove.
type DeleteError struct {
	Keys  []string
	Cause error // of the first failure
}

// Error names at most the first ten keys.
func (e *DeleteError) Error() string {
	shown, more := e.Keys, ""
	if len(shown) > 10 {
		more = fmt.Sprintf(" and %d more", len(shown)-10)
		shown = shown[:10]
	}
	return fmt.Sprintf("delete objects %s%s: %v", strings.Join(shown, ", "), more, e.Cause)
}

// Unwrap returns the cause of the first failure.
func (e *DeleteError) Unwrap() error { return e.Cause }
