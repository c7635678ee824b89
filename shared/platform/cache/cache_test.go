package cache_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/shared/platform/cache"
)

// overhead returns what the cache counts for an entry of no bytes.
func overhead() int {
	c := cache.NewWeighted[int, int](1 << 20)
	c.Add(0, 0, 0)
	return c.Bytes()
}

// TestWeighted compares a cache with a list of keys in order of use, the last
// used first.
func TestWeighted(t *testing.T) {
	t.Parallel()
	const most = 10_000
	overhead := overhead()
	require.Positive(t, overhead)
	type held struct{ key, value, bytes int }
	rapid.Check(t, func(t *rapid.T) {
		c := cache.NewWeighted[int, int](most)
		var want []held
		find := func(key int) int {
			for i, h := range want {
				if h.key == key {
					return i
				}
			}
			return -1
		}
		total := func() (n int) {
			for _, h := range want {
				n += h.bytes + overhead
			}
			return n
		}
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			key := rapid.IntRange(0, 9).Draw(t, "key")
			i := find(key)
			if rapid.Bool().Draw(t, "get") {
				got, ok := c.Get(key)
				require.Equal(t, i >= 0, ok)
				if ok {
					require.Equal(t, want[i].value, got)
					want = append(append([]held{want[i]}, want[:i]...), want[i+1:]...)
				}
				continue
			}
			bytes := rapid.IntRange(0, most).Draw(t, "bytes")
			c.Add(key, step, bytes)
			if i >= 0 {
				want = append(want[:i:i], want[i+1:]...)
			}
			if bytes+overhead <= most {
				want = append([]held{{key, step, bytes}}, want...)
				for total() > most {
					want = want[:len(want)-1]
				}
			}
			require.Equal(t, total(), c.Bytes())
			require.Equal(t, len(want), c.Len())
		}
	})
}

func TestWeightedConcurrentUse(t *testing.T) {
	t.Parallel()
	c := cache.NewWeighted[int, int](5_000)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 1000 {
				c.Add(i%50, i%50, i%700)
				if v, ok := c.Get(i % 50); ok {
					assert.Equal(t, i%50, v)
				}
			}
		})
	}
	wg.Wait()
	assert.LessOrEqual(t, c.Bytes(), 5_000)
	assert.Positive(t, c.Len())
}
