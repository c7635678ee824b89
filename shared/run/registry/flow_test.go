package registry

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/cache"
)

// TestFlowCacheStaysWithinBudget checks that a few flows of the largest size
// are cached, and that a flow is parsed once, however many callers request it
// at once.
func TestFlowCacheStaysWithinBudget(t *testing.T) {
	t.Parallel()
	c := &flowCache{flows: cache.NewWeighted[string, *parsed](flowBytes)}
	spec := func(i int) []byte {
		var b strings.Builder
		b.WriteString(`{"tasks":[`)
		for task := range 10_000 {
			if task > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"description":"%s","entrypoint":"module:function","name":"task_%d_%d","type":"python"}`, strings.Repeat("d", 200), i, task)
		}
		b.WriteString(`]}`)
		return []byte(b.String())
	}
	for i := range 5 {
		p, err := c.parse(fmt.Sprint(i), spec(i))
		require.NoError(t, err)
		got, ok := c.flows.Get(fmt.Sprint(i))
		require.True(t, ok, "the largest is kept")
		assert.Same(t, p, got)
		assert.LessOrEqual(t, c.flows.Bytes(), flowBytes)
	}
	assert.Equal(t, 4, c.flows.Len(), "the first made room")

	var wg sync.WaitGroup
	got := make([]*parsed, 8)
	for i := range got {
		wg.Go(func() {
			got[i], _ = c.parse("one", []byte(`{"tasks":[{"name":"a","type":"transform","config":{"expression":"1"}}]}`))
		})
	}
	wg.Wait()
	for _, p := range got {
		assert.Same(t, got[0], p)
	}
	_, err := c.parse("damaged", []byte(`{"tasks":`))
	require.Error(t, err)
}
