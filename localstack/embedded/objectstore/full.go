package objectstore

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"syscall"

	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3err"

	"millrace/shared/platform/errs"
)

// insufficientStorage is the error code of a write for which there is no disk
// space; its status is 507.
const insufficientStorage = "InsufficientStorage"

// errDiskFull is the error of an admitted write if other processes filled the
// disk.
var errDiskFull = noRoom("the disk of the data directory is full")

func noRoom(text string) s3err.APIError {
	return s3err.APIError{Code: insufficientStorage, Description: text, HTTPStatusCode: http.StatusInsufficientStorage}
}

// admit rejects a write of n bytes for which there is no disk space. It reads
// the body, so that the client gets the response instead of a reset connection.
func (b *objects) admit(ctx context.Context, n int64, body io.Reader) error {
	err := b.space.AdmitFile(ctx, n)
	if err == nil {
		return nil
	}
	if body != nil {
		_, _ = io.Copy(io.Discard, body)
	}
	if e, ok := errors.AsType[*errs.Error](err); ok {
		return noRoom(e.Message)
	}
	return noRoom(err.Error())
}

// failure recognises errors of a full disk, which the backend wraps so that the
// gateway cannot.
func (b *objects) failure(err error) error {
	if api, ok := errors.AsType[s3err.S3Error](err); ok && api.BaseError().Code == insufficientStorage || errors.Is(err, syscall.ENOSPC) {
		return errDiskFull
	}
	return err
}

// failedWrite is failure for a write of key. It removes metadata that the write
// left for an object that does not exist, which the next object would inherit.
func (b *objects) failedWrite(bucket, key string, err error) error {
	err = b.failure(err)
	if errors.Is(err, s3err.GetAPIError(s3err.ErrExistingObjectIsDirectory)) && b.lacksRoomFor(bucket, key) {
		err = errDiskFull
	}
	if !errors.Is(err, errDiskFull) {
		return err
	}
	if _, absent := os.Lstat(b.path(bucket, key)); errors.Is(absent, fs.ErrNotExist) {
		_ = b.metadata.DeleteAttributes(bucket, key)
	}
	return err
}

// lacksRoomFor reports whether an object could not get its name for lack of
// disk space: the backend then reports a directory of that name.
func (b *objects) lacksRoomFor(bucket, key string) bool {
	if info, err := os.Stat(b.path(bucket, key)); err == nil && info.IsDir() || errors.Is(err, syscall.ENOTDIR) {
		return false
	}
	probe, err := os.MkdirTemp(filepath.Join(b.buckets, bucket, posix.MetaTmpDir), "probe-*")
	if err == nil {
		_ = os.Remove(probe)
	}
	return errors.Is(err, syscall.ENOSPC)
}
