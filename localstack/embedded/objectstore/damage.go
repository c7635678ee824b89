package objectstore

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3err"
)

// checkedFirst is the size up to which an object is read twice, first to verify
// it. Damage of a larger object is detected before its last byte is sent.
const checkedFirst = 32 << 20

// partsAttribute is the attribute in which the backend stores the sizes of the
// parts of an object.
const partsAttribute = "mp-metadata"

// damaged is the error for an object whose content is not what was stored. It
// is not a 5xx, which clients would retry.
var damaged = s3err.APIError{
	Code: "ObjectDamaged", HTTPStatusCode: http.StatusConflict,
	Description: "The object is damaged: its content is not what was stored.",
}

// GetObject opens an object, or a range of it. A whole object is verified
// against its ETag, unless ETags are in sidecars, where an interrupted write
// leaves another object's ETag.
func (b *objects) GetObject(ctx context.Context, in *s3.GetObjectInput) (*s3.GetObjectOutput, error) {
	out, err := b.Posix.GetObject(ctx, in)
	key := strings.Clone(*in.Key) // the original shares the request's memory
	if api, ok := errors.AsType[s3err.S3Error](err); ok && api.BaseError().Code == "NoSuchKey" {
		b.lost(key, Missing)
	}
	if err != nil || out.Body == nil || out.ContentRange != nil || b.sidecars {
		return out, b.internal(ctx, "GetObject", key, err)
	}
	sum := b.checksum(*in.Bucket, *in.Key, aws.ToString(out.ETag))
	if sum == nil {
		return out, nil
	}
	sum.onMismatch = func() { b.lost(key, Damaged) }
	file, seekable := out.Body.(io.ReadSeekCloser)
	if !seekable || aws.ToInt64(out.ContentLength) > checkedFirst {
		out.Body = &checkedBody{ReadCloser: out.Body, sum: sum, left: aws.ToInt64(out.ContentLength)}
		return out, nil
	}
	_, err = io.Copy(sum, file)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err == nil && !sum.right() {
		err = damaged
	}
	if err != nil {
		_ = file.Close() // it was read only
		return nil, b.internal(ctx, "GetObject", key, err)
	}
	return out, nil
}

// Reasons for a lost object.
const (
	Missing = "missing"
	Damaged = "damaged"
)

// lost reports an object that cannot be read.
func (b *objects) lost(key, why string) {
	if b.onLost != nil {
		b.onLost(key, why)
	}
}

// etagSum computes the ETag of an object: the MD5 of its bytes, or of the MD5s
// of its parts and their count.
type etagSum struct {
	want       string
	parts      []int64 // ends of the parts; nil if it has none
	part       hash.Hash
	all        hash.Hash
	at         int64
	ended      int
	onMismatch func()
}

// checksum returns the sum of an object that should have the given ETag, or nil
// if the ETag is not a checksum.
func (b *objects) checksum(bucket, key, etag string) *etagSum {
	etag = strings.Trim(etag, `"`)
	sum := &etagSum{want: etag, part: md5.New(), all: md5.New()}
	digest, _, inParts := strings.Cut(etag, "-")
	if raw, err := hex.DecodeString(digest); err != nil || len(raw) != md5.Size {
		return nil
	}
	if !inParts {
		return sum
	}
	data, err := b.metadata.RetrieveAttribute(nil, bucket, key, partsAttribute)
	if err != nil {
		return nil
	}
	about, err := backend.UnmarshalMpUploadMetadata(data, false)
	if err != nil || len(about.Parts) == 0 {
		return nil
	}
	sum.parts = about.Parts
	return sum
}

// Write adds bytes to the sum.
func (s *etagSum) Write(p []byte) (int, error) {
	n := len(p)
	for s.ended < len(s.parts) && s.at+int64(len(p)) >= s.parts[s.ended] {
		rest := s.parts[s.ended] - s.at
		s.part.Write(p[:rest])
		s.all.Write(s.part.Sum(nil))
		s.part.Reset()
		p, s.at = p[rest:], s.at+rest
		s.ended++
	}
	s.part.Write(p)
	s.at += int64(len(p))
	return n, nil
}

// right reports whether the bytes match the ETag, and calls onMismatch if not.
func (s *etagSum) right() bool {
	got := hex.EncodeToString(s.part.Sum(nil))
	if s.parts != nil {
		got = fmt.Sprintf("%x-%d", s.all.Sum(nil), len(s.parts))
		if s.ended != len(s.parts) || s.at != s.parts[len(s.parts)-1] {
			got = ""
		}
	}
	if got != s.want {
		s.onMismatch()
		return false
	}
	return true
}

// checkedBody withholds the end of a damaged object.
type checkedBody struct {
	io.ReadCloser
	sum  *etagSum
	left int64
}

// Read implements io.Reader. Errors: those of the file; io.ErrUnexpectedEOF if
// the object is damaged.
func (c *checkedBody) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	_, _ = c.sum.Write(p[:n]) // never fails
	if c.left -= int64(n); c.left <= 0 && n > 0 && !c.sum.right() {
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}
