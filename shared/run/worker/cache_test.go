package worker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runstate"
)

func TestSmallParametersAreNotCached(t *testing.T) {
	t.Parallel()
	c := newCaches()
	c.keepParameters("small", map[string]any{"a": int64(1)}, 10)
	_, ok := c.parameters("small")
	assert.False(t, ok, "decoding it again costs nothing")
}

// TestCachesAreBounded checks that the caches of many runs stay within their
// budgets and evict what was used least recently.
func TestCachesAreBounded(t *testing.T) {
	t.Parallel()
	c := newCaches()
	text := json.RawMessage(`"` + string(bytes.Repeat([]byte("x"), 250<<10)) + `"`)
	const runs = 1000
	for i := range runs {
		run := fmt.Sprint(i)
		c.keepInput(run, &runstate.Input{Parameters: map[string]json.RawMessage{"text": text}})
		c.keepList(run, 1, []json.RawMessage{text, text})
		c.keep(run, 1, executor.Value{JSON: text})
		c.keepParameters(run, map[string]any{"i": i}, len(text))
		params, ok := c.parameters(run)
		assert.True(t, ok)
		assert.Equal(t, map[string]any{"i": i}, params)
	}
	for name, kept := range map[string]struct{ bytes, budget, entries int }{
		"inputs":     {c.inputs.Bytes(), inputBytes, c.inputs.Len()},
		"lists":      {c.lists.Bytes(), listBytes, 2 * c.lists.Len()},
		"outputs":    {c.outputs.Bytes(), outputBytes, c.outputs.Len()},
		"parameters": {c.params.Bytes(), paramBytes, decodedFactor * c.params.Len()},
	} {
		assert.LessOrEqual(t, kept.bytes, kept.budget, name)
		assert.GreaterOrEqual(t, kept.bytes, kept.entries*len(text), name)
		assert.Greater(t, kept.bytes, kept.budget/2, name)
	}
	_, old := c.output("0", 1)
	_, last := c.output(fmt.Sprint(runs-1), 1)
	assert.Equal(t, []bool{false, true}, []bool{old, last})
}

// TestCacheOfLargeValues checks that the list of a map, which each instance
// reads, is cached at any size, and that an output that would evict the others
// is not.
func TestCacheOfLargeValues(t *testing.T) {
	t.Parallel()
	c := newCaches()
	large := json.RawMessage(bytes.Repeat([]byte("x"), maxScope))
	c.keepList("run", 1, []json.RawMessage{large})
	_, ok := c.lists.Get(outputID{"run", 1})
	assert.True(t, ok)
	c.keepInput("run", &runstate.Input{Parameters: map[string]json.RawMessage{"a": large[:runstate.MaxInput]}})
	_, ok = c.inputs.Get("run")
	assert.True(t, ok)
	c.keep("run", 1, executor.Value{JSON: large})
	_, ok = c.output("run", engine.Node(1))
	assert.False(t, ok)
}
