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

// The port's errors. Drivers wrap them with the operation and the key.
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

// The limits that every driver shares with S3.
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
	Length int64 // bytes; 0 is to the end. A range that passes the end is cut there
}

// PutOptions qualifies a Put.
type PutOptions struct {
	ContentType     string // application/octet-stream when empty
	ContentEncoding string // e.g. gzip; the body is stored as given
	IfAbsent        bool   // refuse with ErrExists when the key is taken
}

// Part names an uploaded part of a multipart upload.
type Part struct {
	Number int    // 1 to MaxParts
	ETag   string // as the part's upload answered, with or without quotes
}

// Store is an object store with one bucket. It is safe for concurrent use.
//
// Every method with a key returns ErrKey for one that [ValidateKey] refuses and
// ErrNotConfigured when no bucket is configured, without contacting the store.
type Store interface {
	// Put stores size bytes of body, streaming them: a body that is no
	// io.Seeker is read once and cannot be retried. Errors: ErrExists (with
	// IfAbsent), ErrSize when body is shorter or longer than size. Nothing is
	// stored on an error of the body. An ErrExists may be the caller's own
	// write when an earlier attempt's answer was lost. Modified is zero in the
	// returned object.
	Put(ctx context.Context, key string, body io.Reader, size int64, opts PutOptions) (Object, error)

	// Get opens an object, or the range rng of it when not nil. The caller
	// closes the reader. Errors: ErrNotFound, ErrRange when the range begins
	// at or behind the end, ErrArgument for a negative offset or length,
	// ErrDamaged from a store that checks what is asked for whole; a large object
	// ends early there.
	Get(ctx context.Context, key string, rng *Range) (io.ReadCloser, Object, error)

	// Head describes an object. Errors: ErrNotFound.
	Head(ctx context.Context, key string) (Object, error)

	// Delete removes objects; absent ones are fine. Errors: *DeleteError with
	// the keys that may still exist.
	Delete(ctx context.Context, keys ...string) error

	// List returns up to limit objects whose keys begin with prefix and sort
	// behind after, in byte order. A limit outside 1 to MaxPageSize means
	// MaxPageSize. next is the after of the following page, empty at the end.
	// The prefix may be any beginning of a key. Objects carry Key, Size, ETag
	// and Modified.
	List(ctx context.Context, prefix, after string, limit int) (objects []Object, next string, err error)

	// Copy copies an object within the store, replacing the target. Errors:
	// ErrNotFound.
	Copy(ctx context.Context, from, to string) error

	// PresignGet returns a URL that serves the object with GET for ttl,
	// without credentials, as a download called filename when not empty.
	// Whether the object exists is not looked at. Errors: ErrArgument for a
	// ttl under a second or over MaxPresignTTL.
	PresignGet(ctx context.Context, key string, ttl time.Duration, filename string) (string, error)

	// PresignPut returns a URL that stores the body of a PUT under key for
	// ttl. Errors: ErrArgument as for PresignGet.
	PresignPut(ctx context.Context, key string, ttl time.Duration) (string, error)

	// CreateMultipart begins an upload in parts; nothing is visible under key
	// until it is completed.
	CreateMultipart(ctx context.Context, key, contentType string) (uploadID string, err error)

	// PresignPart returns a URL that stores the body of a PUT, which has to have
	// size bytes, as one part for ttl; the answer's ETag header goes into [Part].
	// Errors: ErrArgument for a part outside 1 to MaxParts, an empty uploadID or a
	// size under 1, and as for PresignGet.
	PresignPart(ctx context.Context, key, uploadID string, part int, size int64, ttl time.Duration) (string, error)

	// CompleteMultipart makes the parts, in order of their numbers, the object.
	// Completing again with the same parts gives the same answer while the
	// object is there. Errors: ErrNoUpload for an upload that is unknown,
	// aborted, or completed with other parts; ErrBadPart for no parts, a
	// number twice, a part that was not uploaded or has another ETag, and a
	// part under MinPartSize that is not the last.
	CompleteMultipart(ctx context.Context, key, uploadID string, parts []Part) (Object, error)

	// AbortMultipart drops an upload and its parts; an unknown one is fine.
	AbortMultipart(ctx context.Context, key, uploadID string) error

	// Check looks the bucket up, for health reports: nil, ErrNotConfigured or
	// the failure.
	Check(ctx context.Context) error
}

// DeleteError says which keys a Delete could not remove.
type DeleteError struct {
	Keys  []string
	Cause error // of the first failure
}

// Error names the keys, the first ten of them.
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
