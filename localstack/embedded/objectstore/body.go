package objectstore

import (
	"errors"
	"io"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/versity/versitygw/s3err"
)

// whole returns a body that fails if it ends before length bytes have arrived.
// The backend would take what arrived before a client disconnected for the
// whole object; S3 stores nothing in that case. The end of the body is returned
// after ready, which may be nil, has returned.
func whole(body io.Reader, length *int64, ready func() error) io.Reader {
	if body == nil {
		return nil
	}
	r := &wholeReader{body: body, rest: aws.ToInt64(length)}
	if ready != nil {
		r.ready = sync.OnceValue(ready)
	}
	return r
}

// errHungUp is S3's error for an incomplete body. It is not
// io.ErrUnexpectedEOF, which the backend takes for the end of a body.
var errHungUp = s3err.GetAPIError(s3err.ErrIncompleteBody)

// wholeReader fails if body ends before rest bytes have arrived.
type wholeReader struct {
	body io.Reader
	rest int64

	ready func() error // may be nil
}

func (r *wholeReader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	r.rest -= int64(n)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) && r.rest > 0 {
		err = errHungUp
	}
	if errors.Is(err, io.EOF) && r.ready != nil {
		if readyErr := r.ready(); readyErr != nil {
			err = readyErr
		}
	}
	return n, err
}
