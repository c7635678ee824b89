package sandbox_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/run/sandbox"
)

func TestCheckOutput(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for text, want := range map[string]string{
		`null`: "", ` {"a": [1, 2.5e3, "x", true]} `: "", `"😀\ud83d\ude00"`: "", nested(100): "", "1" + strings.Repeat("0", 300): "",
		``:                               "unexpected end",
		`{"a": 1`:                        "unexpected end",
		`{"a": 1, "b": {}, "a": 2}`:      `a key twice: "/a"`,
		`[{"a": {"b": 1, "\u0062": 2}}]`: `a key twice: "/0/a/b"`,
		`"\ud800"`:                       "not JSON",
		"\"\xff\"":                       "UTF-8",
		nested(101):                      "more than 100 levels",
		`[1e999]`:                        `a number out of range at "/0"`,
		`{} {}`:                          "data after the document",
		`NaN`:                            "not JSON",
		`{"` + strings.Repeat("k", 9000) + `": 1, "` + strings.Repeat("k", 9000) + `": 1}`: "…",
	} {
		err := sandbox.CheckOutput([]byte(text))
		if want == "" {
			assert.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, want)
		assert.Less(t, len(err.Error()), 1000)
	}
	broken := errors.New("the connection broke")
	err := sandbox.CheckOutputFrom(io.MultiReader(strings.NewReader(`[1, `), iotest.ErrReader(broken)))
	assert.ErrorIs(t, err, broken)
}

// FuzzCheckOutput checks that an output that passes is decoded by the strict
// decoder that responses go through.
func FuzzCheckOutput(f *testing.F) {
	for _, seed := range []string{`{"a":1,"a":2}`, `"\ud800"`, "\"\xff\"", `[1e999]`, `{"a":[{}]}`, `1 2`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if sandbox.CheckOutput(data) != nil {
			return
		}
		var v any
		require.NoError(t, json.Unmarshal(data, &v))
		_, err := json.Marshal(v)
		require.NoError(t, err)
	})
}
