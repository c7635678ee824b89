package blobtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/blob"
)

func testRoundTrip(t *testing.T, s *suite) {
	for name, content := range map[string]string{"empty": "", "text": "hello, store", "binary": "\x00\xff\x1f\x8b"} {
		key := s.key("round/" + name)
		put, err := blob.PutBytes(t.Context(), s.store, key, []byte(content), blob.PutOptions{
			ContentType: "text/x-test", ContentEncoding: "gzip", // stored as given, never unpacked
		})
		require.NoError(t, err)
		assert.Equal(t, key, put.Key)
		assert.EqualValues(t, len(content), put.Size)
		assert.NotEmpty(t, put.ETag)
		assert.NotContains(t, put.ETag, `"`)

		data, got, err := blob.GetBytes(t.Context(), s.store, key, 1<<20)
		require.NoError(t, err)
		assert.Equal(t, content, string(data))
		head, err := s.store.Head(t.Context(), key)
		require.NoError(t, err)
		assert.Equal(t, head, got)
		assert.Equal(t, key, head.Key)
		assert.Equal(t, put.ETag, head.ETag)
		assert.Equal(t, put.Size, head.Size)
		assert.Equal(t, "text/x-test", head.ContentType)
		assert.WithinDuration(t, time.Now(), head.Modified, time.Hour)
		assert.Equal(t, time.UTC, head.Modified.Location())
	}
	s.put(t, "round/plain", "x")
	head, err := s.store.Head(t.Context(), s.key("round/plain"))
	require.NoError(t, err)
	assert.Equal(t, "application/octet-stream", head.ContentType)
}

func testPutReplaces(t *testing.T, s *suite) {
	first := s.put(t, "a", "first, and longer")
	second := s.put(t, "a", "second")
	assert.NotEqual(t, first.ETag, second.ETag)
	assert.Equal(t, "second", s.get(t, "a"))
}

func testPutStreams(t *testing.T, s *suite) {
	content := strings.Repeat("stream ", 50_000)
	for name, body := range map[string]io.Reader{
		"plain":   strings.NewReader(content),
		"oneByte": iotest.OneByteReader(strings.NewReader(content[:2000])),
		"eofWith": iotest.DataErrReader(strings.NewReader(content)),
	} {
		want := content
		if name == "oneByte" {
			want = content[:2000]
		}
		_, err := s.store.Put(t.Context(), s.key(name), stream{body}, int64(len(want)), blob.PutOptions{})
		require.NoError(t, err, name)
		assert.Equal(t, want, s.get(t, name))
	}
	_, err := s.store.Put(t.Context(), s.key("empty"), stream{strings.NewReader("")}, 0, blob.PutOptions{})
	require.NoError(t, err)
	assert.Empty(t, s.get(t, "empty"))
	partly := strings.NewReader("skipped|kept")
	_, err = partly.Seek(8, io.SeekStart)
	require.NoError(t, err)
	_, err = s.store.Put(t.Context(), s.key("partly"), partly, 4, blob.PutOptions{})
	require.NoError(t, err)
	assert.Equal(t, "kept", s.get(t, "partly"))
}

func testPutSizeMismatch(t *testing.T, s *suite) {
	for _, size := range []int64{0, 1, 9, 11, 100_000} {
		for name, body := range map[string]io.Reader{
			"seekable": strings.NewReader("ten bytes!"), "stream": stream{strings.NewReader("ten bytes!")},
		} {
			key := s.key(fmt.Sprintf("%s-%d", name, size))
			_, err := s.store.Put(t.Context(), key, body, size, blob.PutOptions{})
			require.ErrorIs(t, err, blob.ErrSize, key)
			_, err = s.store.Head(t.Context(), key)
			require.ErrorIs(t, err, blob.ErrNotFound, key)
		}
	}
	_, err := s.store.Put(t.Context(), s.key("negative"), stream{strings.NewReader("")}, -1, blob.PutOptions{})
	assert.ErrorIs(t, err, blob.ErrArgument)
}

func testPutBrokenBody(t *testing.T, s *suite) {
	broken := errors.New("the source failed")
	s.put(t, "a", "what was there")
	body := stream{io.MultiReader(strings.NewReader(strings.Repeat("x", 100_000)), iotest.ErrReader(broken))}
	_, err := s.store.Put(t.Context(), s.key("a"), body, 200_000, blob.PutOptions{})
	require.ErrorIs(t, err, broken)
	assert.Equal(t, "what was there", s.get(t, "a"))

	// The same over HTTP: a client that disconnects has stored nothing.
	link, err := s.store.PresignPut(t.Context(), s.key("a"), time.Minute)
	require.NoError(t, err)
	body = stream{io.MultiReader(strings.NewReader(strings.Repeat("x", 100_000)), iotest.ErrReader(broken))}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, link, body)
	require.NoError(t, err)
	req.ContentLength = 200_000
	res, err := http.DefaultClient.Do(req)
	if err == nil {
		res.Body.Close()
	}
	require.ErrorIs(t, err, broken)
	assert.Equal(t, "what was there", s.get(t, "a"))
}

func testIfAbsent(t *testing.T, s *suite) {
	opts := blob.PutOptions{IfAbsent: true}
	_, err := blob.PutBytes(t.Context(), s.store, s.key("once"), []byte("first"), opts)
	require.NoError(t, err)
	_, err = blob.PutBytes(t.Context(), s.store, s.key("once"), []byte("second"), opts)
	require.ErrorIs(t, err, blob.ErrExists)
	assert.Equal(t, "first", s.get(t, "once"))
	require.NoError(t, s.store.Delete(t.Context(), s.key("once")))
	_, err = blob.PutBytes(t.Context(), s.store, s.key("once"), []byte("third"), opts)
	require.NoError(t, err)
	assert.Equal(t, "third", s.get(t, "once"))
}

func testIfAbsentRace(t *testing.T, s *suite) {
	const writers = 12
	errs := make([]error, writers)
	begin := make(chan struct{})
	var done sync.WaitGroup
	for i := range writers {
		done.Go(func() {
			<-begin
			_, errs[i] = blob.PutBytes(t.Context(), s.store, s.key("race"), fmt.Appendf(nil, "writer %d", i), blob.PutOptions{IfAbsent: true})
		})
	}
	close(begin)
	done.Wait()
	var winners []string
	for i, err := range errs {
		if err == nil {
			winners = append(winners, fmt.Sprintf("writer %d", i))
			continue
		}
		assert.ErrorIs(t, err, blob.ErrExists)
	}
	assert.Equal(t, []string{s.get(t, "race")}, winners)
}

func testAbsent(t *testing.T, s *suite) {
	s.put(t, "dir/object", "x")
	for _, path := range []string{"nothing", "dir", "dir/object2", "no/such/dir"} {
		_, _, err := s.store.Get(t.Context(), s.key(path), nil)
		assert.ErrorIs(t, err, blob.ErrNotFound, path)
		assert.ErrorContains(t, err, s.key(path))
		_, err = s.store.Head(t.Context(), s.key(path))
		assert.ErrorIs(t, err, blob.ErrNotFound, path)
		_, _, err = blob.GetBytes(t.Context(), s.store, s.key(path), 10)
		assert.ErrorIs(t, err, blob.ErrNotFound, path)
	}
}

func testInvalidKeys(t *testing.T, s *suite) {
	ctx := t.Context()
	for _, key := range []string{"", "alone", "/a/b", s.key("../other/x"), s.key("a//b"), s.key("a\nb"), s.key(strings.Repeat("k/", 600))} {
		_, err := blob.PutBytes(ctx, s.store, key, nil, blob.PutOptions{})
		assert.ErrorIs(t, err, blob.ErrKey)
		_, _, err = s.store.Get(ctx, key, nil)
		assert.ErrorIs(t, err, blob.ErrKey)
		_, err = s.store.Head(ctx, key)
		assert.ErrorIs(t, err, blob.ErrKey)
		assert.ErrorIs(t, s.store.Delete(ctx, s.key("fine"), key), blob.ErrKey)
		assert.ErrorIs(t, s.store.Copy(ctx, key, s.key("to")), blob.ErrKey)
		assert.ErrorIs(t, s.store.Copy(ctx, s.key("from"), key), blob.ErrKey)
		_, err = s.store.PresignGet(ctx, key, time.Minute, "")
		assert.ErrorIs(t, err, blob.ErrKey)
		_, err = s.store.PresignPut(ctx, key, time.Minute)
		assert.ErrorIs(t, err, blob.ErrKey)
		_, err = s.store.PresignPart(ctx, key, "upload", 1, 5, time.Minute)
		assert.ErrorIs(t, err, blob.ErrKey)
		_, err = s.store.CreateMultipart(ctx, key, "")
		assert.ErrorIs(t, err, blob.ErrKey)
		_, err = s.store.CompleteMultipart(ctx, key, "upload", []blob.Part{{Number: 1, ETag: "x"}})
		assert.ErrorIs(t, err, blob.ErrKey)
		assert.ErrorIs(t, s.store.AbortMultipart(ctx, key, "upload"), blob.ErrKey)
	}
}

func testUnusualKeys(t *testing.T, s *suite) {
	for _, path := range []string{
		"with space", "plus+and&and=", "per%20cent%", "question?mark#hash", "ünï/cödé/日本語/🚂", "quote'\"<>",
		"dots...and..", ".hidden", "deep/a/b/c/d/e/f/g/h", strings.Repeat("n", 255), "~tilde;semi:colon@at!$*(),[]{}|^`",
	} {
		put := s.put(t, path, "content of "+path)
		assert.Equal(t, "content of "+path, s.get(t, path))
		objects, _, err := s.store.List(t.Context(), s.key(path), "", 10)
		require.NoError(t, err, path)
		require.Len(t, objects, 1, path)
		assert.Equal(t, put.Key, objects[0].Key)
		url, err := s.store.PresignGet(t.Context(), put.Key, time.Minute, "")
		require.NoError(t, err)
		status, _, body := request(t, "GET", url, nil)
		assert.Equal(t, 200, status, path)
		assert.Equal(t, "content of "+path, string(body))
		require.NoError(t, s.store.Copy(t.Context(), put.Key, s.key("copied")), path)
		assert.Equal(t, "content of "+path, s.get(t, "copied"))
		require.NoError(t, s.store.Delete(t.Context(), put.Key))
		_, err = s.store.Head(t.Context(), put.Key)
		assert.ErrorIs(t, err, blob.ErrNotFound, path)
	}
}

func testGetBytesLimit(t *testing.T, s *suite) {
	s.put(t, "ten", "ten bytes!")
	data, obj, err := blob.GetBytes(t.Context(), s.store, s.key("ten"), 10)
	require.NoError(t, err)
	assert.Equal(t, "ten bytes!", string(data))
	assert.EqualValues(t, 10, obj.Size)
	_, _, err = blob.GetBytes(t.Context(), s.store, s.key("ten"), 9)
	assert.ErrorIs(t, err, blob.ErrTooLarge)
}

func testCopy(t *testing.T, s *suite) {
	_, err := blob.PutBytes(t.Context(), s.store, s.key("from"), []byte("original"), blob.PutOptions{ContentType: "text/plain"})
	require.NoError(t, err)
	s.put(t, "dir/to", "replaced")
	require.NoError(t, s.store.Copy(t.Context(), s.key("from"), s.key("dir/to")))
	data, obj, err := blob.GetBytes(t.Context(), s.store, s.key("dir/to"), 100)
	require.NoError(t, err)
	assert.Equal(t, "original", string(data))
	assert.Equal(t, "text/plain", obj.ContentType)
	assert.Equal(t, "original", s.get(t, "from"))
	assert.ErrorIs(t, s.store.Copy(t.Context(), s.key("absent"), s.key("other")), blob.ErrNotFound)
	_, err = s.store.Head(t.Context(), s.key("other"))
	assert.ErrorIs(t, err, blob.ErrNotFound)
}

func testDelete(t *testing.T, s *suite) {
	ctx := t.Context()
	s.put(t, "a", "x")
	s.put(t, "dir/b", "x")
	s.put(t, "dir/c", "x")
	require.NoError(t, s.store.Delete(ctx))
	require.NoError(t, s.store.Delete(ctx, s.key("absent"), s.key("no/such/dir"), s.key("a/below-an-object")))
	require.NoError(t, s.store.Delete(ctx, s.key("dir/b"), s.key("absent"), s.key("a"), s.key("a")))
	require.NoError(t, s.store.Delete(ctx, s.key("a")), "deleting again")
	objects, _, err := s.store.List(ctx, s.key(""), "", 0)
	require.NoError(t, err)
	require.Len(t, objects, 1)
	assert.Equal(t, s.key("dir/c"), objects[0].Key)
}

func testDeleteBatches(t *testing.T, s *suite) {
	const absent = 2_100 // more than two batches, the stored ones at their edges
	keys := make([]string, absent)
	for i := range keys {
		keys[i] = s.key(fmt.Sprintf("batch/%04d", i))
	}
	for _, i := range []int{0, 999, 1000, 1999, 2000, absent - 1} {
		_, err := s.store.Put(t.Context(), keys[i], bytes.NewReader([]byte("x")), 1, blob.PutOptions{})
		require.NoError(t, err)
	}
	require.NoError(t, s.store.Delete(t.Context(), keys...))
	objects, _, err := s.store.List(t.Context(), s.key(""), "", 0)
	require.NoError(t, err)
	assert.Empty(t, objects)
}

func testCancelled(t *testing.T, s *suite) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := blob.PutBytes(ctx, s.store, s.key("a"), []byte("x"), blob.PutOptions{})
	assert.ErrorIs(t, err, context.Canceled)
	_, _, err = s.store.Get(ctx, s.key("a"), nil)
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorIs(t, s.store.Delete(ctx, s.key("a")), context.Canceled)
}
