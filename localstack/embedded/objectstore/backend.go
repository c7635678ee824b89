package objectstore

import (
	"context"
	"errors"
	"io"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"
)

// wholeBodies is the posix backend made to refuse bodies that end early. The
// backend takes what arrived before a client hung up for the whole object; S3
// stores nothing then.
type wholeBodies struct{ *posix.Posix }

// PutObject stores an object.
func (b wholeBodies) PutObject(ctx context.Context, in s3response.PutObjectInput) (s3response.PutObjectOutput, error) {
	in.Body = whole(in.Body, in.ContentLength)
	return b.Posix.PutObject(ctx, in)
}

// UploadPart stores a part of an upload.
func (b wholeBodies) UploadPart(ctx context.Context, in *s3.UploadPartInput) (*s3.UploadPartOutput, error) {
	checked := *in
	checked.Body = whole(in.Body, in.ContentLength)
	return b.Posix.UploadPart(ctx, &checked)
}

func whole(body io.Reader, length *int64) io.Reader {
	if body == nil || length == nil {
		return body
	}
	return &wholeReader{body: body, rest: *length}
}

// errHungUp is S3's own error for it and no io.ErrUnexpectedEOF, which the
// backend takes for the end of a body.
var errHungUp = s3err.GetAPIError(s3err.ErrIncompleteBody)

// wholeReader turns an end before rest bytes came into an error.
type wholeReader struct {
	body io.Reader
	rest int64
}

func (r *wholeReader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	r.rest -= int64(n)
	if errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF && r.rest > 0 {
		err = errHungUp
	}
	return n, err
}
