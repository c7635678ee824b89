package s3

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/errs"
)

// serve starts a server that answers every request with handle.
func serve(t *testing.T, handle http.HandlerFunc) *Store {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	s := New(Config{Bucket: "bucket", Endpoint: server.URL, AccessKey: "access", SecretKey: "secret", PathStyle: true})
	s.backoff = time.Millisecond
	return s
}

func fail(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `<Error><Code>%s</Code><Message>said the server</Message></Error>`, code)
}

func TestNotConfigured(t *testing.T) {
	t.Parallel()
	s := New(Config{})
	assert.ErrorIs(t, s.Check(t.Context()), blob.ErrNotConfigured)
	_, err := s.Head(t.Context(), "org/a")
	assert.ErrorIs(t, err, blob.ErrNotConfigured)
	_, err = s.PresignGet(t.Context(), "org/a", time.Minute, "")
	assert.ErrorIs(t, err, blob.ErrNotConfigured)
	_, _, err = s.List(t.Context(), "org/", "", 0)
	assert.ErrorIs(t, err, blob.ErrNotConfigured)
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{404: "bucket bucket does not exist", 403: "look up bucket bucket"} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			assert.Equal(t, "HEAD /bucket", r.Method+" "+r.URL.Path)
			w.WriteHeader(status)
		})
		assert.ErrorContains(t, s.Check(t.Context()), want)
	}
}

func TestRetriesAreBounded(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) < maxAttempts {
			fail(w, 503, "SlowDown")
		}
	})
	_, err := blob.PutBytes(t.Context(), s, "org/a", []byte("x"), blob.PutOptions{})
	require.NoError(t, err, "the last attempt counts")
	calls.Store(-100)
	_, err = blob.PutBytes(t.Context(), s, "org/a", []byte("x"), blob.PutOptions{})
	require.ErrorContains(t, err, "SlowDown")
	assert.EqualValues(t, maxAttempts-100, calls.Load())

	calls.Store(-100)
	_, err = s.Put(t.Context(), "org/a", struct{ io.Reader }{strings.NewReader("x")}, 1, blob.PutOptions{})
	require.ErrorContains(t, err, "SlowDown")
	assert.EqualValues(t, -99, calls.Load(), "a stream is sent once")
}

// TestFullDiskIsNotRetried checks that a write to a full disk is sent once and
// keeps the server's reason.
func TestFullDiskIsNotRetried(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		fail(w, 507, "InsufficientStorage")
	})
	_, put := blob.PutBytes(t.Context(), s, "org/a", []byte("x"), blob.PutOptions{})
	_, stream := s.Put(t.Context(), "org/a", struct{ io.Reader }{strings.NewReader("x")}, 1, blob.PutOptions{})
	_, begin := s.CreateMultipart(t.Context(), "org/a", "")
	_, complete := s.CompleteMultipart(t.Context(), "org/a", "upload", []blob.Part{{Number: 1, ETag: "0cc175b9c0f1b6a831c399e269772661"}})
	for name, err := range map[string]error{
		"put": put, "stream": stream, "copy": s.Copy(t.Context(), "org/a", "org/b"), "begin": begin, "complete": complete,
	} {
		e, ok := errors.AsType[*errs.Error](err)
		require.True(t, ok, "%s: %v", name, err)
		assert.Equal(t, errs.Unavailable, e.Code, name)
		assert.Equal(t, "said the server", e.Message, name)
		assert.Equal(t, 10*time.Second, e.RetryAfter, name)
	}
	assert.EqualValues(t, 5, calls.Load())
}

// TestTruncatedResponseIsRetried uses a request whose response has a body.
func TestTruncatedResponseIsRetried(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `<ListBucketResult><Contents><Key>org/a</Key></Contents>`)
		if calls.Add(1) == 1 {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, `</ListBucketResult>`)
	})
	objects, _, err := s.List(t.Context(), "org/", "", 0)
	require.NoError(t, err)
	assert.Len(t, objects, 1)
	assert.EqualValues(t, 2, calls.Load())
}

func TestConflictIsRetried(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "*", r.Header.Get("If-None-Match"))
		if calls.Add(1) == 1 {
			fail(w, 409, "ConditionalRequestConflict")
			return
		}
		fail(w, 412, "PreconditionFailed")
	})
	_, err := blob.PutBytes(t.Context(), s, "org/a", []byte("x"), blob.PutOptions{IfAbsent: true})
	require.ErrorIs(t, err, blob.ErrExists)
	assert.EqualValues(t, 2, calls.Load())
}

func TestDeleteNamesFailedKeys(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		switch calls.Add(1) {
		case 1:
			fail(w, 403, "AccessDenied")
		case 2:
			fmt.Fprint(w, `<DeleteResult><Error><Key>org/1500</Key><Code>InternalError</Code></Error>`+
				`<Error><Key>org/1501</Key><Code>NoSuchKey</Code></Error></DeleteResult>`)
		default:
			fmt.Fprint(w, `<DeleteResult></DeleteResult>`)
		}
	})
	keys := make([]string, 2100)
	for i := range keys {
		keys[i] = fmt.Sprintf("org/%d", i)
	}
	err := s.Delete(t.Context(), keys...)
	failed, ok := errors.AsType[*blob.DeleteError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, append(append([]string{}, keys[:1000]...), "org/1500"), failed.Keys)
	assert.ErrorContains(t, failed.Cause, "AccessDenied")
	assert.EqualValues(t, 3, calls.Load())
}

func TestTranslate(t *testing.T) {
	t.Parallel()
	for code, want := range sentinels {
		err := wrap("get", "org/a", fmt.Errorf("operation: %w", &smithy.GenericAPIError{Code: code}))
		assert.ErrorIs(t, err, want)
		assert.ErrorContains(t, err, "get object org/a: ")
	}
	other := errors.New("connection refused")
	assert.ErrorIs(t, wrap("get", "org/a", other), other)
	assert.NoError(t, wrap("get", "org/a", nil))
	bucket := wrap("get", "org/a", &smithy.GenericAPIError{Code: "NoSuchBucket"})
	assert.NotErrorIs(t, bucket, blob.ErrNotFound, "a missing bucket is no missing object")
}

// TestReadsAreNotLogged reads from a server as from AWS, whose responses are
// checked against their checksums if they have any.
func TestReadsAreNotLogged(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "ENABLED", r.Header.Get("X-Amz-Checksum-Mode"))
		w.Header().Set("Content-Range", "bytes 0-3/9")
		w.WriteHeader(http.StatusPartialContent)
		fmt.Fprint(w, "some")
	}))
	t.Cleanup(server.Close)
	var lines []string
	s := New(Config{Bucket: "bucket", Region: "eu-west-1", AccessKey: "access", SecretKey: "secret", PathStyle: true})
	base, err := s.awsConfig(t.Context())
	require.NoError(t, err)
	base.BaseEndpoint, base.ResponseChecksumValidation = &server.URL, aws.ResponseChecksumValidationWhenSupported
	base.Logger = logging.LoggerFunc(func(_ logging.Classification, format string, args ...any) {
		lines = append(lines, fmt.Sprintf(format, args...))
	})
	s.client = awss3.NewFromConfig(base, s.options(""))
	body, _, err := s.Get(t.Context(), "org/a", &blob.Range{Length: 4})
	require.NoError(t, err)
	data, err := io.ReadAll(body)
	require.NoError(t, err)
	assert.Equal(t, "some", string(data))
	assert.Empty(t, lines)
}

func TestPublicEndpoint(t *testing.T) {
	t.Parallel()
	s := New(Config{
		Bucket: "bucket", Endpoint: "http://10.0.0.1:9000", PublicEndpoint: "https://objects.example.com/",
		AccessKey: "access", SecretKey: "secret", PathStyle: true,
	})
	link, err := s.PresignGet(t.Context(), "org/a b", 90*time.Second, "")
	require.NoError(t, err)
	u, err := url.Parse(link)
	require.NoError(t, err)
	assert.Equal(t, "https://objects.example.com/bucket/org/a%20b", "https://"+u.Host+u.EscapedPath())
	assert.Equal(t, "90", u.Query().Get("X-Amz-Expires"))
	assert.NotContains(t, link, "secret")
}

func TestJoinedETag(t *testing.T) {
	t.Parallel()
	// md5(md5("a") + md5("b")), as S3 documents it
	parts := []blob.Part{{Number: 1, ETag: "0cc175b9c0f1b6a831c399e269772661"}, {Number: 2, ETag: "92eb5ffee6ae2fec3ad71c777531578f"}}
	assert.Equal(t, "96e024ba2074fe77e8e965ba43a704be-2", joinedETag(parts))
	assert.Empty(t, joinedETag([]blob.Part{{Number: 1, ETag: "not hex"}}))
	assert.Empty(t, joinedETag([]blob.Part{{Number: 1, ETag: "abcd"}}))
}

// TestCompleteOfForgottenUpload simulates AWS, where an upload is gone after
// its completion.
func TestCompleteOfForgottenUpload(t *testing.T) {
	t.Parallel()
	parts := []blob.Part{{Number: 1, ETag: `"0cc175b9c0f1b6a831c399e269772661"`}}
	joined := joinedETag([]blob.Part{{Number: 1, ETag: "0cc175b9c0f1b6a831c399e269772661"}})
	for _, c := range []struct {
		etag, encryption string
		want             error
	}{
		{joined, "", nil},
		{joined, "AES256", nil},
		{"92eb5ffee6ae2fec3ad71c777531578f-1", "", blob.ErrNoUpload},
		{"92eb5ffee6ae2fec3ad71c777531578f-1", "AES256", blob.ErrNoUpload},
		{"", "", blob.ErrNoUpload},
		{joined, "aws:kms", nil},
		{"92eb5ffee6ae2fec3ad71c777531578f-1", "aws:kms", nil},
		{"92eb5ffee6ae2fec3ad71c777531578f-1", "aws:kms:dsse", nil},
		{"92eb5ffee6ae2fec3ad71c777531578f-2", "aws:kms", blob.ErrNoUpload},
		{"92eb5ffee6ae2fec3ad71c777531578f", "aws:kms", blob.ErrNoUpload},
	} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "POST" {
				fail(w, 404, "NoSuchUpload")
				return
			}
			w.Header().Set("ETag", `"`+c.etag+`"`)
			if c.encryption != "" {
				w.Header().Set("X-Amz-Server-Side-Encryption", c.encryption)
			}
		})
		obj, err := s.CompleteMultipart(t.Context(), "org/a", "upload", parts)
		require.ErrorIs(t, err, c.want, "%+v", c)
		if c.want == nil {
			assert.Equal(t, c.etag, obj.ETag)
		}
	}
}

func TestExactReader(t *testing.T) {
	t.Parallel()
	for name, shape := range map[string]func(io.Reader) io.Reader{
		"plain": func(r io.Reader) io.Reader { return r }, "oneByte": iotest.OneByteReader,
		"half": iotest.HalfReader, "dataErr": iotest.DataErrReader,
	} {
		for _, size := range []int64{1, 4, 5, 6, 100} {
			r := &exactReader{body: shape(strings.NewReader("12345")), rest: size}
			data, err := io.ReadAll(r)
			if size == 5 {
				require.NoError(t, err, name)
				assert.Equal(t, "12345", string(data))
				continue
			}
			require.ErrorIs(t, err, blob.ErrSize, "%s of %d", name, size)
			assert.Less(t, int64(len(data)), size, "the last byte stays back")
		}
	}
	broken := errors.New("broken")
	_, err := io.ReadAll(&exactReader{body: io.MultiReader(strings.NewReader("1"), iotest.ErrReader(broken)), rest: 2})
	assert.ErrorIs(t, err, broken)
}
