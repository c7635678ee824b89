package expr_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/run/expr"
)

// documents returns JSON texts of about a megabyte, by kind of content.
func documents() map[string]string {
	list := func(element string) string {
		n := 1<<20/(len(element)+1) + 1
		return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
	}
	object := func(members int, value string) string {
		var b strings.Builder
		for i := range members {
			fmt.Fprintf(&b, `"k%d":%s,`, i, value)
		}
		return "{" + strings.TrimSuffix(b.String(), ",") + "}"
	}
	return map[string]string{
		"empty objects":  list("{}"),
		"empty lists":    list("[]"),
		"empty strings":  list(`""`),
		"digits":         list("1"),
		"long numbers":   list("123456789.25"),
		"nulls":          list("null"),
		"strings":        list(`"a string of words"`),
		"long string":    list(`"` + strings.Repeat("x", 1<<20) + `"`),
		"escapes":        list(`"\"\\\"\\\""`),
		"small objects":  list(`{"a":1}`),
		"rows":           list(object(10, `"some text"`)),
		"wide objects":   list(object(100, "1")),
		"nine members":   list(object(9, "true")),
		"one object":     object(80_000, "1"),
		"pairs":          list("[1,2]"),
		"nested objects": list(`{"a":{"b":{"c":[]}}}`),
		"white space":    list("[ 1 , 2 ]\n  "),
	}
}

// TestWeightBoundsDecodedMemory: it is at least the live memory after decoding,
// and not many times as much.
func TestWeightBoundsDecodedMemory(t *testing.T) {
	for name, text := range documents() {
		raw := []byte(text)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		v, err := expr.Decode(raw)
		require.NoError(t, err, name)
		runtime.GC()
		runtime.ReadMemStats(&after)
		lives := int64(after.HeapAlloc) - int64(before.HeapAlloc)
		weight := expr.Weight(raw)
		assert.GreaterOrEqual(t, weight+(64<<10), lives, name) // the runtime's own allocations count as well
		assert.LessOrEqual(t, weight, 5*lives+(1<<20), name)
		runtime.KeepAlive(v)
		runtime.KeepAlive(raw)
	}
}
