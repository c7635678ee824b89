package objectstore

import (
	"errors"
	"io"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/versity/versitygw/s3err"
)

// whole makes of a body one that is refused if it ends before length bytes came.
// The backend takes what arrived before a client hung up for the whole object; S3
// stores nothing then. Its end is told when ready, which may be nil, returns.
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

// errHungUp is S3's own error for it and no io.ErrUnexpectedEOF, which the
// backend takes for the end of a body.
var errHungUp = s3err.GetAPIError(s3err.ErrIncompleteBody)

// wholeReader turns an end before rest bytes came into an error.
type wholeReader struct {
	body io.Reader
	rest int64

	ready func() error // nil: it always is
}

func (r *wholeReader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	r.rest -= int64(n)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) && r.rest > 0 {
		err = errHungUp
	}
	if errors.Is(err, io.EOF) && r.ready != nil {
		if refused := r.ready(); refused != nil {
			err = refused
		}
	}
	return n, err
}
