package conductor

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDecodedParametersAreBounded(t *testing.T) {
	t.Parallel()
	c := newCaches()
	c.keepParameters("small", map[string]any{"a": int64(1)}, 10)
	_, ok := c.parameters("small")
	assert.False(t, ok, "decoding it again costs nothing")
	for i := range 100 {
		for range 2 { // two tasks of the run at once
			c.keepParameters(fmt.Sprint(i), map[string]any{"i": i}, 100<<10)
		}
		params, ok := c.parameters(fmt.Sprint(i))
		assert.True(t, ok)
		assert.Equal(t, map[string]any{"i": i}, params)
		assert.LessOrEqual(t, c.paramBytes, paramBytes)
	}
	assert.Equal(t, c.params.Len()*(100<<10), c.paramBytes)
	_, ok = c.parameters("0")
	assert.False(t, ok, "the oldest make room")
}
