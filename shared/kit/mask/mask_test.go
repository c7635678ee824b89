package mask_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/shared/kit/mask"
)

func masker(values ...string) *mask.Masker {
	m := &mask.Masker{}
	for _, v := range values {
		m.Add(v)
	}
	return m
}

func TestEmpty(t *testing.T) {
	t.Parallel()
	var none *mask.Masker
	for _, m := range []*mask.Masker{none, {}, masker("", "short", "a\nb\nc")} {
		assert.True(t, m.Empty())
		assert.Equal(t, "short", m.String("short"))
		assert.JSONEq(t, `"short"`, string(m.JSON(json.RawMessage(`"short"`))))
		r, hit := m.JSONReader(strings.NewReader(`1`))
		raw, err := io.ReadAll(r)
		require.NoError(t, err)
		assert.Equal(t, "1", string(raw))
		assert.False(t, hit())
	}
	m, text := masker("secret"), "nothing to hide"
	assert.Equal(t, text, m.String(text))
}

func TestString(t *testing.T) {
	t.Parallel()
	const s = `p@ss w/"ö"<\>+1`
	for in, want := range map[string]string{
		"a " + s + " b":                          "a *** b",
		s + s:                                    "******",
		s + " " + s:                              "*** ***",
		url.QueryEscape(s):                       "***",
		"/x/" + url.PathEscape(s):                "/x/***",
		"p%40ss%20w%2f%22%c3%b6%22%3c%5c%3e%2b1": "***",
		"p%40ss%20w/%22%C3%B6%22%3C%5C%3E%2B1":   "***", // Python's quote
		`{"a":"p@ss w/\"ö\"<\\>+1"}`:             `{"a":"***"}`,
		`{"a":"p@ss w/\"\u00f6\"<\\>+1"}`:        `{"a":"***"}`,
		`{"a":"p@ss w\/\"\u00F6\"<\\>+1"}`:       `{"a":"***"}`,
		`{"a":"p@ss w/\"ö\"\u003c\\\u003e+1"}`:   `{"a":"***"}`,
		"p@ss w":                                 "p@ss w",
		"":                                       "",
	} {
		assert.Equal(t, want, masker(s).String(in), in)
	}
	assert.Equal(t, "*** and ***.", masker("abcdefgh", "efghijkl").String("abcdefghijkl and efghijkl."), "stretches that overlap")
	assert.Equal(t, "x *** y", masker("secret", "secret-and-longer").String("x secret-and-longer y"))
	assert.Equal(t, "***", masker("aaaaaa").String("aaaaaaaaaaa"))
	many := masker("-----BEGIN KEY-----\r\nMIIabcdef\r\nx\r\n-----END KEY-----\n")
	assert.Equal(t, "line: ***", many.String("line: MIIabcdef"), "each line of a value")
	assert.Equal(t, "x", many.String("x"))
}

// text draws values with all characters that encodings treat specially.
func text(minimum int) *rapid.Generator[string] {
	return rapid.StringOfN(rapid.SampledFrom([]rune("abcXYZ019 +/=%\"\\<>&'~!*()-_.:;,?#@$\n\t\x7fäß漢😀\u2028")), minimum, 24, -1)
}

// TestEncodings checks that a value is found in each encoding at any position.
func TestEncodings(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := text(6).Draw(t, "value")
		before, after := text(0).Draw(t, "before"), text(0).Draw(t, "after")
		m := masker(v)
		core := func(enc *base64.Encoding) {
			got := m.String(enc.EncodeToString([]byte(before + v + after)))
			if !strings.Contains(got, mask.Stars) {
				t.Fatalf("not hidden in base64: %q", got)
			}
		}
		core(base64.StdEncoding)
		core(base64.URLEncoding)
		core(base64.RawStdEncoding)
		core(base64.RawURLEncoding)
		quoted, _ := json.Marshal(before + v + after)
		for _, in := range []string{before + v + after, string(quoted), "?q=" + url.QueryEscape(v) + "&b", "/" + url.PathEscape(v) + "/b"} {
			if got := m.String(in); strings.Contains(got, v) || !strings.Contains(got, mask.Stars) {
				t.Fatalf("not hidden: %q in %q", got, in)
			}
		}
	})
}

// TestPythonForms uses the output of Python 3.11 for values in lists and dicts.
func TestPythonForms(t *testing.T) {
	t.Parallel()
	for value, shown := range map[string][]string{
		`{"key": "a\nb"}`:           {`['{"key": "a\\nb"}']`},
		"it's\ta\x01 \u00a0 käse\"": {`['it\'s\ta\x01 \xa0 käse"']`, `['it\'s\ta\x01 \xa0 k\xe4se"']`},
		"it's \u2028 \U0001f600!":   {`["it's \u2028 😀!"]`, `["it's \u2028 \U0001f600!"]`},
		`c:\users\secret`:           {`{'path': 'c:\\users\\secret'}`},
	} {
		m := masker(value)
		for _, text := range shown {
			assert.NotContains(t, m.String(text), "s", "%q of %q", text, value)
			assert.Contains(t, m.String(text), mask.Stars)
		}
	}
}

// TestJSON checks that masked JSON has the same shape, and that no string
// contains the value after decoding.
func TestJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := text(6).Draw(t, "value")
		m := masker(v)
		piece := rapid.OneOf(text(0), rapid.Just(v), rapid.Just(base64.StdEncoding.EncodeToString([]byte(v))), rapid.Just(`\n`), rapid.Just(`\`))
		var strs []string
		for range rapid.IntRange(1, 4).Draw(t, "strings") {
			strs = append(strs, strings.Join(rapid.SliceOfN(piece, 0, 5).Draw(t, "pieces"), ""))
		}
		raw, err := json.Marshal(map[string]any{"list": strs, "n": 12.5e3, "b": true, "null": nil, "in": map[string]any{"a": strs}})
		if err != nil {
			t.Fatal(err)
		}
		out := m.JSON(raw)
		var got struct {
			List []string
			N    float64
			B    bool
			In   map[string][]string
		}
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if got.N != 12500 || !got.B || len(got.List) != len(strs) {
			t.Fatalf("changed: %s", out)
		}
		for i, s := range got.List {
			if want := m.String(strs[i]); s != want {
				t.Fatalf("%q became %q, not %q", strs[i], s, want)
			}
		}
		r, hit := m.JSONReader(iotest.OneByteReader(strings.NewReader(string(raw))))
		streamed, err := io.ReadAll(r)
		if err != nil || string(streamed) != string(out) || hit() != (string(out) != string(raw)) {
			t.Fatalf("streamed %s, not %s: %v", streamed, out, err)
		}
	})
}

func TestJSONForms(t *testing.T) {
	t.Parallel()
	m := masker("123456", `nsecret`, `{"a":"b c"}`, "xyzxyz")
	for in, want := range map[string]string{
		`{"n":123456,"m":[1123456.5,12345]}`: `{"n":"***","m":["***",12345]}`,
		`123456`:                             `"***"`,
		`-123456e4`:                          `"***"`,
		`"\nsecret"`:                         `"\nsecret"`, // a line break, then another word
		`"\\nsecret"`:                        `"\\***"`,
		`{"xyzxyz":1}`:                       `{"***":1}`,
		`"{\"a\":\"b c\"}"`:                  `"***"`,
		`"\"{\\\"a\\\":\\\"b c\\\"}\""`:      `"\"***\""`, // JSON in JSON
		`{"a":"b c"}`:                        `{"a":"b c"}`,
		`[true,null,"",{}]`:                  `[true,null,"",{}]`,
	} {
		assert.Equal(t, want, string(m.JSON(json.RawMessage(in))), in)
	}
}

// TestJSONReaderUsesConstantMemory streams a document much larger than its
// buffers.
func TestJSONReaderUsesConstantMemory(t *testing.T) {
	t.Parallel()
	part := `"` + strings.Repeat("x", 50_000) + `the-secret",`
	const n = 400
	src := io.MultiReader(strings.NewReader("["), &repeat{part, n, 0}, strings.NewReader("1]"))
	r, hit := masker("the-secret").JSONReader(src)
	size, err := io.Copy(io.Discard, r)
	require.NoError(t, err)
	assert.True(t, hit())
	assert.EqualValues(t, 1+n*(len(part)-len("the-secret")+len(mask.Stars))+2, size)

	broken, _ := masker("the-secret").JSONReader(iotest.ErrReader(io.ErrUnexpectedEOF))
	_, err = io.ReadAll(broken)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// repeat reads a text repeatedly.
type repeat struct {
	text    string
	n, done int
}

func (r *repeat) Read(p []byte) (int, error) {
	if r.done >= r.n*len(r.text) {
		return 0, io.EOF
	}
	at := r.done % len(r.text)
	n := copy(p, r.text[at:])
	r.done += n
	return n, nil
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"a":"secret"}`, `"\u0073ecret`, `"\`, `secret`, `"a\\"secret"`, `[1,2`, "\xff\"secret\xff"} {
		f.Add(seed)
	}
	m := masker("secret", `se"cr\et`)
	f.Fuzz(func(t *testing.T, in string) {
		out := m.JSON(json.RawMessage(in))
		if json.Valid([]byte(in)) && !json.Valid(out) {
			t.Fatalf("%q became %q", in, out)
		}
		r, _ := m.JSONReader(iotest.HalfReader(strings.NewReader(in)))
		if _, err := io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkString(b *testing.B) {
	m := masker("hunter2-hunter2", "AKIAIOSFODNN7EXAMPLE", "correct horse battery staple")
	line := strings.Repeat("2026-01-02 03:04:05 INFO something happened to item 4711; ", 4)
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		_ = m.String(line)
	}
}

func BenchmarkJSON(b *testing.B) {
	m := masker("hunter2-hunter2", "AKIAIOSFODNN7EXAMPLE", "correct horse battery staple")
	var rows []map[string]any
	for i := range 1000 {
		rows = append(rows, map[string]any{"id": i, "name": fmt.Sprint("name ", i), "note": "something happened to this row"})
	}
	raw, err := json.Marshal(rows)
	require.NoError(b, err)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		_ = m.JSON(raw)
	}
}
