package blob_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/shared/platform/blob"
)

// memory holds one object and counts the bytes fetched.
type memory struct {
	blob.Store
	data    []byte
	etag    string
	fetches int
	fetched int64
	fail    error
}

func (m *memory) Get(_ context.Context, key string, rng *blob.Range) (io.ReadCloser, blob.Object, error) {
	if m.fail != nil {
		return nil, blob.Object{}, m.fail
	}
	obj := blob.Object{Key: key, Size: int64(len(m.data)), ETag: m.etag}
	if rng == nil {
		return io.NopCloser(bytes.NewReader(m.data)), obj, nil
	}
	m.fetches++
	m.fetched += rng.Length
	return io.NopCloser(bytes.NewReader(m.data[rng.Offset : rng.Offset+rng.Length])), obj, nil
}

func content(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i * 31 >> 3)
	}
	return data
}

func TestReaderAtReadsAnyRange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{0, 1, 1000, 256 << 10, 256<<10 + 1, 700_000}).Draw(t, "size")
		store := &memory{data: content(size), etag: "e"}
		r := blob.NewReaderAt(context.Background(), store, "org/a", int64(size))
		want := bytes.NewReader(store.data)
		for range rapid.IntRange(1, 12).Draw(t, "reads") {
			off := int64(rapid.IntRange(0, size+10).Draw(t, "off"))
			length := rapid.SampledFrom([]int{0, 1, 4096, 100_000, 256 << 10, 400_000}).Draw(t, "length")
			got, expected := make([]byte, length), make([]byte, length)
			n, err := r.ReadAt(got, off)
			m, expectedErr := want.ReadAt(expected, off)
			if n != m || !errors.Is(err, expectedErr) || !bytes.Equal(got[:n], expected[:m]) {
				t.Fatalf("read of %d at %d: %d, %v instead of %d, %v", length, off, n, err, m, expectedErr)
			}
		}
	})
}

func TestReaderAtFetchesFewBytes(t *testing.T) {
	t.Parallel()
	const size = 100 << 20
	store := &memory{data: make([]byte, size), etag: "e"}
	r := blob.NewReaderAt(t.Context(), store, "org/a", size)
	p := make([]byte, 4096)
	for off := int64(size - 65_536); off < size; off += 4096 { // an archive's directory
		_, err := r.ReadAt(p, off)
		require.NoError(t, err)
	}
	assert.Equal(t, 1, store.fetches)
	_, err := io.CopyN(io.Discard, io.NewSectionReader(r, 1000, 1<<20), 1<<20) // then a file of it
	require.NoError(t, err)
	assert.LessOrEqual(t, store.fetches, 6)
	assert.LessOrEqual(t, store.fetched, int64(2<<20))
}

func TestReaderAtErrors(t *testing.T) {
	t.Parallel()
	store := &memory{data: content(1 << 20), etag: "one"}
	r := blob.NewReaderAt(t.Context(), store, "org/a", 1<<20)
	p := make([]byte, 8)
	_, err := r.ReadAt(p, -1)
	require.ErrorIs(t, err, blob.ErrArgument)
	store.fail = blob.ErrNotFound
	_, err = r.ReadAt(p, 0)
	require.ErrorIs(t, err, blob.ErrNotFound)
	store.fail = nil
	_, err = r.ReadAt(p, 0)
	require.NoError(t, err, "a failure does not stick")
	assert.Equal(t, store.data[:8], p)
	store.etag = "two"
	_, err = r.ReadAt(p, 1<<19)
	require.ErrorIs(t, err, blob.ErrChanged)
	_, err = r.ReadAt(p, 0)
	require.NoError(t, err, "the window is still of the first")
}

func TestGetBytes(t *testing.T) {
	t.Parallel()
	store := &memory{data: content(100)}
	for limit, want := range map[int64]error{100: nil, 1000: nil, 99: blob.ErrTooLarge, 0: blob.ErrTooLarge} {
		data, obj, err := blob.GetBytes(t.Context(), store, "org/a", limit)
		require.ErrorIs(t, err, want)
		assert.EqualValues(t, 100, obj.Size)
		if want == nil {
			assert.Equal(t, store.data, data)
		}
	}
}
