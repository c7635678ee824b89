package blobtest

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/blob"
)

func testRanges(t *testing.T, s *suite) {
	const content = "0123456789abcdef"
	put := s.put(t, "r", content)
	for _, tt := range []struct {
		rng  blob.Range
		want string
	}{
		{blob.Range{Offset: 0, Length: 1}, "0"},
		{blob.Range{Offset: 0, Length: 16}, content},
		{blob.Range{Offset: 0, Length: 0}, content},
		{blob.Range{Offset: 5, Length: 3}, "567"},
		{blob.Range{Offset: 10}, "abcdef"},
		{blob.Range{Offset: 15, Length: 1}, "f"},
		{blob.Range{Offset: 14, Length: 100}, "ef"},
	} {
		body, obj, err := s.store.Get(t.Context(), s.key("r"), &tt.rng)
		require.NoError(t, err, "%+v", tt.rng)
		data, err := io.ReadAll(body)
		require.NoError(t, err)
		require.NoError(t, body.Close())
		assert.Equal(t, tt.want, string(data), "%+v", tt.rng)
		assert.EqualValues(t, len(content), obj.Size, "the whole object's size")
		assert.Equal(t, put.ETag, obj.ETag)
	}
}

func testRangeErrors(t *testing.T, s *suite) {
	s.put(t, "r", "0123456789")
	for _, tt := range []struct {
		rng  blob.Range
		want error
	}{
		{blob.Range{Offset: 10, Length: 1}, blob.ErrRange},
		{blob.Range{Offset: 1000}, blob.ErrRange},
		{blob.Range{Offset: -1, Length: 1}, blob.ErrArgument},
		{blob.Range{Offset: 0, Length: -1}, blob.ErrArgument},
	} {
		_, _, err := s.store.Get(t.Context(), s.key("r"), &tt.rng)
		assert.ErrorIs(t, err, tt.want, "%+v", tt.rng)
	}
	_, _, err := s.store.Get(t.Context(), s.key("absent"), &blob.Range{Length: 1})
	assert.ErrorIs(t, err, blob.ErrNotFound)
}

func testReaderAtZip(t *testing.T, s *suite) {
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	random := rand.NewChaCha8([32]byte{1})
	contents := map[string][]byte{}
	for i := range 40 {
		name := fmt.Sprintf("dir/file%02d.bin", i)
		data := make([]byte, 50_000) // incompressible: the archive has 2 MB
		_, _ = random.Read(data)
		contents[name] = data
		f, err := w.Create(name)
		require.NoError(t, err)
		_, err = f.Write(data)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	obj := s.put(t, "a.zip", archive.String())

	r := blob.NewReaderAt(t.Context(), s.store, obj.Key, obj.Size)
	z, err := zip.NewReader(r, r.Size())
	require.NoError(t, err)
	require.Len(t, z.File, 40)
	for _, i := range []int{0, 39, 17, 18} {
		f, err := z.File[i].Open()
		require.NoError(t, err)
		data, err := io.ReadAll(f)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(contents[z.File[i].Name], data), z.File[i].Name)
	}
}

func testReaderAtReplaced(t *testing.T, s *suite) {
	const size = 1 << 20 // larger than the read-ahead
	obj := s.put(t, "a", string(make([]byte, size)))
	r := blob.NewReaderAt(t.Context(), s.store, obj.Key, obj.Size)
	p := make([]byte, 10)
	_, err := r.ReadAt(p, 0)
	require.NoError(t, err)
	s.put(t, "a", string(bytes.Repeat([]byte{1}, size)))
	_, err = r.ReadAt(p, size-10)
	assert.ErrorIs(t, err, blob.ErrChanged)
}
