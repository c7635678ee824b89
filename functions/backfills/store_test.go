package backfills

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTimesAreDecodedAsEncoded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := []int64{rapid.Int64Range(-1<<40, 1<<40).Draw(t, "first")}
		for _, step := range rapid.SliceOfN(rapid.SampledFrom([]int64{1, 60, 3600, 82800, 86400, 31622400}), 0, 300).Draw(t, "steps") {
			at = append(at, at[len(at)-1]+step)
		}
		got, err := decodeTimes(encodeTimes(at))
		require.NoError(t, err)
		assert.Equal(t, at, got)
	})
	none, err := decodeTimes(encodeTimes(nil))
	require.NoError(t, err)
	assert.Empty(t, none)
}

// TestPlansAreSmall: the times of a plan, whatever its cadence, leave room for
// the largest parameters in one item.
func TestPlansAreSmall(t *testing.T) {
	t.Parallel()
	at := make([]int64, maxIntervals)
	for i := range at[1:] {
		at[i+1] = at[i] + 31622400 - int64(i%7)
	}
	assert.Less(t, len(encodeTimes(at)), 64<<10)
	for i := range at {
		at[i] = int64(i) * 86400
	}
	assert.Less(t, len(encodeTimes(at)), 16)
}

func FuzzDecodeTimes(f *testing.F) {
	f.Add(encodeTimes([]int64{0, 60, 120, 86400}))
	f.Add([]byte{0x80})
	f.Fuzz(func(t *testing.T, data []byte) {
		at, err := decodeTimes(data)
		if err == nil {
			assert.LessOrEqual(t, len(at), maxIntervals)
			assert.True(t, slices.IsSorted(at) || len(at) > 0 && at[len(at)-1] < at[0])
		}
	})
}
