package blobtest

import (
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/blob"
)

// testLarge streams 20 MB in and out without buffering them on either side.
func testLarge(t *testing.T, s *suite) {
	const size = 20<<20 + 7
	sent := sha256.New()
	body := io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{7}), size), sent)
	obj, err := s.store.Put(t.Context(), s.key("large"), stream{body}, size, blob.PutOptions{})
	require.NoError(t, err)
	assert.EqualValues(t, size, obj.Size)

	r, got, err := s.store.Get(t.Context(), s.key("large"), nil)
	require.NoError(t, err)
	defer r.Close()
	assert.EqualValues(t, size, got.Size)
	received := sha256.New()
	n, err := io.Copy(received, r)
	require.NoError(t, err)
	assert.EqualValues(t, size, n)
	assert.Equal(t, sent.Sum(nil), received.Sum(nil))
}
