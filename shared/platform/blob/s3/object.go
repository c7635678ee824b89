package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"millrace/shared/platform/blob"
)

const defaultContentType = "application/octet-stream"

// Put stores size bytes of body.
func (s *Store) Put(ctx context.Context, key string, body io.Reader, size int64, opts blob.PutOptions) (blob.Object, error) {
	client, err := s.open(ctx, key)
	if err != nil {
		return blob.Object{}, err
	}
	body, err = sized(body, size)
	if err != nil {
		return blob.Object{}, wrap("put", key, err)
	}
	in := &s3.PutObjectInput{
		Bucket: s.bucket, Key: &key, Body: body, ContentLength: &size,
		ContentType: aws.String(contentType(opts.ContentType)),
	}
	if opts.ContentEncoding != "" {
		in.ContentEncoding = &opts.ContentEncoding
	}
	if opts.IfAbsent {
		in.IfNoneMatch = aws.String("*")
	}
	var tune []func(*s3.Options)
	if _, seekable := body.(io.Seeker); !seekable {
		// A stream cannot be sent again, so the SDK must not retry.
		tune = append(tune, func(o *s3.Options) { o.Retryer = aws.NopRetryer{} })
		if !s.checksums() { // signing the payload would read it twice
			tune = append(tune, s3.WithAPIOptions(v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware))
		}
	}
	out, err := client.PutObject(ctx, in, tune...)
	if err != nil {
		if failed, ok := body.(*exactReader); ok && failed.err != nil {
			err = failed.err // the transport's error hides the cause
		}
		return blob.Object{}, wrap("put", key, err)
	}
	return blob.Object{Key: key, Size: size, ETag: unquote(out.ETag)}, nil
}

// Get opens an object or a range of it.
func (s *Store) Get(ctx context.Context, key string, rng *blob.Range) (io.ReadCloser, blob.Object, error) {
	client, err := s.open(ctx, key)
	if err != nil {
		return nil, blob.Object{}, err
	}
	in := &s3.GetObjectInput{Bucket: s.bucket, Key: &key}
	if rng != nil {
		if rng.Offset < 0 || rng.Length < 0 {
			return nil, blob.Object{}, wrap("get", key, fmt.Errorf("%w: range %+v", blob.ErrArgument, *rng))
		}
		in.Range = aws.String(rangeHeader(*rng))
	}
	out, err := client.GetObject(ctx, in)
	if err != nil {
		return nil, blob.Object{}, wrap("get", key, err)
	}
	obj := blob.Object{
		Key: key, Size: aws.ToInt64(out.ContentLength), ETag: unquote(out.ETag),
		ContentType: aws.ToString(out.ContentType), Modified: aws.ToTime(out.LastModified).UTC(),
	}
	if rng != nil && out.ContentRange != nil {
		_, total, _ := strings.Cut(*out.ContentRange, "/")
		if obj.Size, err = strconv.ParseInt(total, 10, 64); err != nil {
			out.Body.Close()
			return nil, blob.Object{}, wrap("get", key, fmt.Errorf("content range %q of the answer", *out.ContentRange))
		}
	}
	return out.Body, obj, nil
}

// Head describes an object.
func (s *Store) Head(ctx context.Context, key string) (blob.Object, error) {
	obj, _, err := s.head(ctx, key)
	return obj, err
}

// head describes an object, and reports whether a KMS key encrypts it.
func (s *Store) head(ctx context.Context, key string) (obj blob.Object, sealed bool, err error) {
	client, err := s.open(ctx, key)
	if err != nil {
		return blob.Object{}, false, err
	}
	out, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: s.bucket, Key: &key})
	if err != nil {
		return blob.Object{}, false, wrap("head", key, err)
	}
	return blob.Object{
		Key: key, Size: aws.ToInt64(out.ContentLength), ETag: unquote(out.ETag),
		ContentType: aws.ToString(out.ContentType), Modified: aws.ToTime(out.LastModified).UTC(),
	}, out.ServerSideEncryption == types.ServerSideEncryptionAwsKms || out.ServerSideEncryption == types.ServerSideEncryptionAwsKmsDsse, nil
}

// Copy copies an object within the bucket.
func (s *Store) Copy(ctx context.Context, from, to string) error {
	client, err := s.open(ctx, from, to)
	if err != nil {
		return err
	}
	segments := strings.Split(s.cfg.Bucket+"/"+from, "/")
	for i, segment := range segments {
		// S3 decodes a plus sign as a space.
		segments[i] = strings.ReplaceAll(url.PathEscape(segment), "+", "%2B")
	}
	_, err = client.CopyObject(ctx, &s3.CopyObjectInput{
		Bucket: s.bucket, Key: &to, CopySource: aws.String(strings.Join(segments, "/")),
	})
	return wrap("copy", from, err)
}

func rangeHeader(rng blob.Range) string {
	if rng.Length == 0 {
		return fmt.Sprintf("bytes=%d-", rng.Offset)
	}
	return fmt.Sprintf("bytes=%d-%d", rng.Offset, rng.Offset+rng.Length-1)
}

func contentType(given string) string {
	if given == "" {
		return defaultContentType
	}
	return given
}

func unquote(etag *string) string { return strings.Trim(aws.ToString(etag), `"`) }

// sized returns a body of exactly size bytes: it measures seekable bodies and
// checks streams as they are read.
func sized(body io.Reader, size int64) (io.Reader, error) {
	if size < 0 {
		return nil, fmt.Errorf("%w: size %d", blob.ErrArgument, size)
	}
	seeker, ok := body.(io.Seeker)
	if !ok {
		exact := &exactReader{body: body, rest: size}
		if size > 0 {
			return exact, nil
		}
		if _, err := exact.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			return nil, err
		}
		return http.NoBody, nil
	}
	at, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, err
	}
	end, err := seeker.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	if end-at != size {
		return nil, fmt.Errorf("%w: %d bytes instead of %d", blob.ErrSize, end-at, size)
	}
	_, err = seeker.Seek(at, io.SeekStart)
	return body, err
}

// exactReader fails with blob.ErrSize, before it returns the last byte, if body
// ends early or continues past the announced size.
type exactReader struct {
	body io.Reader
	rest int64
	err  error // sticky; io.EOF is not kept here
	done bool
}

func (r *exactReader) Read(p []byte) (int, error) {
	switch {
	case r.err != nil:
		return 0, r.err
	case r.done:
		return 0, io.EOF
	case len(p) == 0:
		return 0, nil
	}
	if r.rest > 0 {
		n, err := r.body.Read(p[:min(int64(len(p)), r.rest)])
		r.rest -= int64(n)
		switch {
		case err == io.EOF && r.rest > 0:
			r.err = fmt.Errorf("%w: %d bytes short", blob.ErrSize, r.rest)
			return n, r.err
		case err != nil && err != io.EOF:
			r.err = err
			return n, err
		case r.rest > 0:
			return n, nil
		}
		if err == io.EOF {
			r.done = true
			return n, io.EOF
		}
		if r.err = r.probe(); r.err != nil {
			return n - 1, r.err // withholding the last byte keeps the object from being stored
		}
		return n, io.EOF
	}
	if r.err = r.probe(); r.err != nil {
		return 0, r.err
	}
	return 0, io.EOF
}

// probe reads past the end and fails if there is more data.
func (r *exactReader) probe() error {
	n, err := io.ReadFull(r.body, make([]byte, 1))
	switch {
	case n > 0:
		return fmt.Errorf("%w: longer than announced", blob.ErrSize)
	case err != io.EOF:
		return err
	}
	r.done = true
	return nil
}
