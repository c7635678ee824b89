package blobtest

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/blob"
)

// begin starts an upload and sends its parts by presigned URLs.
func (s *suite) begin(t *testing.T, path string, contents ...[]byte) (string, []blob.Part) {
	t.Helper()
	id, err := s.store.CreateMultipart(t.Context(), s.key(path), "application/zip")
	require.NoError(t, err)
	require.NotEmpty(t, id)
	// An upload that a test leaves open would otherwise stay forever.
	t.Cleanup(func() { _ = s.store.AbortMultipart(context.Background(), s.key(path), id) })
	var parts []blob.Part
	for i, content := range contents {
		parts = append(parts, s.send(t, path, id, i+1, content))
	}
	return id, parts
}

func (s *suite) send(t *testing.T, path, id string, number int, content []byte) blob.Part {
	t.Helper()
	link, err := s.store.PresignPart(t.Context(), s.key(path), id, number, int64(len(content)), time.Minute)
	require.NoError(t, err)
	status, header, body := request(t, "PUT", link, content)
	require.Equal(t, 200, status, string(body))
	require.NotEmpty(t, header.Get("ETag"))
	return blob.Part{Number: number, ETag: header.Get("ETag")}
}

func testMultipart(t *testing.T, s *suite) {
	one, two := bytes.Repeat([]byte("1"), blob.MinPartSize), []byte("the last, small one")
	id, parts := s.begin(t, "a.zip", one, []byte("sent again below"))
	parts[1] = s.send(t, "a.zip", id, 2, two)

	_, err := s.store.Head(t.Context(), s.key("a.zip"))
	require.ErrorIs(t, err, blob.ErrNotFound, "visible before it is complete")
	objects, _, err := s.store.List(t.Context(), s.key(""), "", 0)
	require.NoError(t, err)
	require.Empty(t, objects)

	slices.Reverse(parts) // the order of the argument does not matter
	obj, err := s.store.CompleteMultipart(t.Context(), s.key("a.zip"), id, parts)
	require.NoError(t, err)
	assert.Equal(t, s.key("a.zip"), obj.Key)
	assert.EqualValues(t, len(one)+len(two), obj.Size)
	assert.Equal(t, "application/zip", obj.ContentType)
	head, err := s.store.Head(t.Context(), s.key("a.zip"))
	require.NoError(t, err)
	assert.Equal(t, head, obj)
	assert.True(t, string(one)+string(two) == s.get(t, "a.zip"), "content differs")
}

func testMultipartTampered(t *testing.T, s *suite) {
	id, parts := s.begin(t, "a.zip", bytes.Repeat([]byte("1"), blob.MinPartSize), []byte("two"))
	link, err := s.store.PresignPart(t.Context(), s.key("a.zip"), id, 1, 8, time.Minute)
	require.NoError(t, err)
	for name, tampered := range map[string]string{
		"other part":   strings.Replace(link, "partNumber=1", "partNumber=2", 1),
		"other upload": strings.Replace(link, "uploadId="+id[:1], "uploadId=z"+id[:1], 1),
		"other key":    strings.Replace(link, "/a.zip?", "/b.zip?", 1),
	} {
		require.NotEqual(t, link, tampered, name)
		status, _, _ := request(t, "PUT", tampered, []byte("intruder"))
		assert.Equal(t, 403, status, name)
	}
	for _, other := range []string{"", "shorter", "an intruder that is longer than it was said"} {
		status, _, _ := request(t, "PUT", link, []byte(other))
		assert.Equal(t, 403, status, "%d bytes in place of 8", len(other))
	}
	obj, err := s.store.CompleteMultipart(t.Context(), s.key("a.zip"), id, parts)
	require.NoError(t, err)
	assert.EqualValues(t, blob.MinPartSize+3, obj.Size)
}

func testMultipartCompleteTwice(t *testing.T, s *suite) {
	id, parts := s.begin(t, "a", bytes.Repeat([]byte("1"), blob.MinPartSize), []byte("two"))
	first, err := s.store.CompleteMultipart(t.Context(), s.key("a"), id, parts)
	require.NoError(t, err)
	for range 3 {
		again, err := s.store.CompleteMultipart(t.Context(), s.key("a"), id, parts)
		require.NoError(t, err)
		assert.Equal(t, first, again)
	}
	_, err = s.store.CompleteMultipart(t.Context(), s.key("a"), id, parts[:1])
	assert.ErrorIs(t, err, blob.ErrNoUpload, "other parts than it was completed with")
	require.NoError(t, s.store.AbortMultipart(t.Context(), s.key("a"), id), "aborting a complete upload")
	assert.Len(t, s.get(t, "a"), blob.MinPartSize+3)
}

func testMultipartBadParts(t *testing.T, s *suite) {
	id, parts := s.begin(t, "a", []byte("too small for a first part"), []byte("two"))
	wrong := blob.Part{Number: 2, ETag: strings.Repeat("0", 32)}
	for name, bad := range map[string][]blob.Part{
		"none":         {},
		"wrong ETag":   {parts[0], wrong},
		"no ETag":      {parts[0], {Number: 2}},
		"not uploaded": {parts[0], {Number: 3, ETag: parts[1].ETag}},
		"twice":        {parts[0], parts[0]},
		"number 0":     {{Number: 0, ETag: parts[0].ETag}},
		"number high":  {{Number: blob.MaxParts + 1, ETag: parts[0].ETag}},
		"too small":    parts,
	} {
		_, err := s.store.CompleteMultipart(t.Context(), s.key("a"), id, bad)
		assert.ErrorIs(t, err, blob.ErrBadPart, name)
	}
	_, err := s.store.Head(t.Context(), s.key("a"))
	require.ErrorIs(t, err, blob.ErrNotFound)
	obj, err := s.store.CompleteMultipart(t.Context(), s.key("a"), id, parts[1:])
	require.NoError(t, err, "the upload survives refusals, and parts may be left out")
	assert.EqualValues(t, 3, obj.Size)
}

func testMultipartAbort(t *testing.T, s *suite) {
	s.put(t, "a", "what was there")
	id, _ := s.begin(t, "a", []byte("dropped"))
	for range 2 {
		require.NoError(t, s.store.AbortMultipart(t.Context(), s.key("a"), id))
	}
	require.NoError(t, s.store.AbortMultipart(t.Context(), s.key("a"), "0d2f2f0e-3c53-4c8f-8f8e-5f8f0a2c1b9d"))
	require.NoError(t, s.store.AbortMultipart(t.Context(), s.key("never"), ""))
	assert.Equal(t, "what was there", s.get(t, "a"))
}

// testMultipartUnknown covers uploads that never existed or no longer exist.
func testMultipartUnknown(t *testing.T, s *suite) {
	one := bytes.Repeat([]byte("1"), blob.MinPartSize)
	id, parts := s.begin(t, "a", one)
	for _, unknown := range []string{"", "0d2f2f0e-3c53-4c8f-8f8e-5f8f0a2c1b9d"} {
		_, err := s.store.CompleteMultipart(t.Context(), s.key("never"), unknown, parts)
		assert.ErrorIs(t, err, blob.ErrNoUpload, unknown)
	}
	_, err := s.store.CompleteMultipart(t.Context(), s.key("a"), id, parts)
	require.NoError(t, err)
	require.NoError(t, s.store.Delete(t.Context(), s.key("a")))
	_, err = s.store.CompleteMultipart(t.Context(), s.key("a"), id, parts)
	assert.ErrorIs(t, err, blob.ErrNoUpload, "the object is gone")

	id, parts = s.begin(t, "b", one)
	link, err := s.store.PresignPart(t.Context(), s.key("b"), id, 2, 8, time.Minute)
	require.NoError(t, err)
	require.NoError(t, s.store.AbortMultipart(t.Context(), s.key("b"), id))
	status, _, _ := request(t, "PUT", link, []byte("too late"))
	assert.Equal(t, 404, status)
	_, err = s.store.CompleteMultipart(t.Context(), s.key("b"), id, parts)
	assert.ErrorIs(t, err, blob.ErrNoUpload, "aborted")
}
