package blob_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/blob"
)

func TestSpool(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, size := range []int{0, 1, 1 << 20, 1<<20 + 1, 5 << 20} {
		want := bytes.Repeat([]byte("0123456789abcde\n"), size/16+1)[:size]
		var s blob.Spool
		for rest := want; len(rest) > 0; {
			n := min(len(rest), 100_003)
			written, err := s.Write(rest[:n])
			require.NoError(t, err)
			require.Equal(t, n, written)
			rest = rest[n:]
		}
		assert.EqualValues(t, size, s.Size())
		for range 2 { // a store that retries reads it again
			body, err := s.Reader()
			require.NoError(t, err)
			got, err := io.ReadAll(body)
			require.NoError(t, err)
			assert.True(t, bytes.Equal(want, got), size)
		}
		got, err := s.Bytes()
		require.NoError(t, err)
		assert.True(t, bytes.Equal(want, got), size)
		require.NoError(t, s.Close())
	}
}

// TestSpoolWithoutDiskFails checks that a body that does not fit in memory
// fails if no temporary file can be created.
func TestSpoolWithoutDiskFails(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()+"/none")
	var s blob.Spool
	_, err := s.Write(make([]byte, 1<<20))
	require.NoError(t, err)
	_, err = s.Write([]byte{1})
	require.Error(t, err)
	require.NoError(t, s.Close())
}
