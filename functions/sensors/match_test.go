package sensors

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	const document = `{"a":{"b":[{"c":1},{"c":"two","0":"zero"}],"":"empty"},"7":{"x":[[10,20],[30]]},"list":[],"none":null,` +
		`"yes":true,"no":false,"text":"","word":"0","zero":0,"flat":-0.0e3,"tiny":1e-400,"object":{},"full":{"k":null},"items":[null],"big":9007199254740993}`
	const (
		match   = ""
		missing = " is not in the response"
		falsy   = " is false, null, zero or empty"
		other   = " does not equal expected_value"
	)
	for _, c := range []struct {
		path, value, body string
		why               string // the end of the reason
	}{
		{"", "", document, match},

		{"a", "", document, match},
		{"a.b", "", document, match},
		{"a.b.0", "", document, match},
		{"a.b.0.c", "", document, match},
		{"a.b.1.c", "", document, match},
		{"a.b.1.0", "", document, match}, // a key of digits
		{"7.x.0.1", "", document, match},
		{"7.x.1.0", "30", document, match},
		{"word", "", document, match}, // a text is truthy unless it is empty
		{"yes", "", document, match},
		{"tiny", "", document, match},
		{"full", "", document, match},
		{"items", "", document, match},
		{"list", "", document, falsy},
		{"none", "", document, falsy},
		{"no", "", document, falsy},
		{"text", "", document, falsy},
		{"zero", "", document, falsy},
		{"flat", "", document, falsy},
		{"object", "", document, falsy},
		{"items.0", "", document, falsy},

		{"b", "", document, missing},
		{"A", "", document, missing},
		{"a.c", "", document, missing},
		{"a.b.2", "", document, missing},
		{"a.b.00", "", document, missing},
		{"a.b.+0", "", document, missing},
		{"a.b.-1", "", document, missing},
		{"a.b.1e0", "", document, missing},
		{"a.b.99999999999999999999", "", document, missing},
		{"a.b.c", "", document, missing},
		{"a.b.0.c.d", "", document, missing},
		{"a.b.0.c.0", "", document, missing},
		{"7.x.1.1", "", document, missing},
		{"list.0", "", document, missing},
		{"none.a", "", document, missing},
		{"word.0", "", document, missing},
		{"0", "", document, missing},
		{"a", "null", `{}`, missing},

		{"none", "null", document, match},
		{"no", "false", document, match},
		{"no", "0", document, other},
		{"zero", "0.00", document, match},
		{"zero", "-0", document, match},
		{"zero", "false", document, other},
		{"flat", "0", document, match},
		{"a.b.0.c", "1", document, match},
		{"a.b.0.c", "1.0", document, match},
		{"a.b.0.c", "10e-1", document, match},
		{"a.b.0.c", "0.01E+2", document, match},
		{"a.b.0.c", "-1", document, other},
		{"a.b.0.c", `"1"`, document, other},
		{"a.b.0.c", "true", document, other},
		{"big", "9007199254740993", document, match},
		{"big", "9007199254740992", document, other},
		{"big", "9.007199254740993e15", document, match},
		{"tiny", "0", document, other},
		{"tiny", "10e-401", document, match},
		{"word", `"0"`, document, match},
		{"word", `"\u0030"`, document, match},
		{"text", `""`, document, match},
		{"list", "[]", document, match},
		{"list", "[null]", document, other},
		{"items", "[]", document, other},
		{"items", "[null]", document, match},
		{"items", "[null,null]", document, other},
		{"list", "{}", document, other},
		{"object", "{}", document, match},
		{"object", `{"k":null}`, document, other},
		{"full", "{}", document, other},
		{"full", `{"k":null}`, document, match},
		{"full", `{"l":null}`, document, other},
		{"a.b.1", `{"0":"zero","c":"two"}`, document, match},
		{"a.b", `[{"c":1.0},{"0":"zero","c":"two"}]`, document, match},
		{"a.b", `[{"0":"zero","c":"two"},{"c":1}]`, document, other},
		{"7", `{"x":[[10,20],[30]]}`, document, match},
		{"7", `{"x":[[10,20],[30,40]]}`, document, other},
		{"n", "1e999999999999999999999", `{"n":1e999999999999999999999}`, match},
		{"n", "1e999999999999999999998", `{"n":1e999999999999999999999}`, other},
		{"n", "1e1000000000", `{"n":10e999999999}`, match},

		{"", "3", "3.0", match},
		{"", `["a"]`, ` ["a"] `, match},
		{"", "true", "false", other},
	} {
		m := newMatch(c.path, c.value)
		reason, err := m.check([]byte(c.body))
		require.NoError(t, err, "%+v", c)
		if c.why == match {
			assert.Empty(t, reason, "%+v", c)
		} else {
			assert.True(t, strings.HasSuffix(reason, c.why), "%+v: %s", c, reason)
		}
	}
}

func newMatch(path, value string) match {
	m := match{path: path}
	if value != "" {
		m.value = json.RawMessage(value)
	}
	return m
}

func TestMatchOfStatus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want, got int
		matches   bool
	}{
		{0, 200, true}, {0, 204, true}, {0, 299, true}, {0, 199, false}, {0, 300, false}, {0, 304, false}, {0, 404, false}, {0, 503, false},
		{200, 200, true}, {200, 201, false}, {404, 404, true}, {404, 200, false}, {503, 503, true},
	} {
		assert.Equal(t, c.matches, (&match{status: c.want}).ok(c.got), "%+v", c)
	}
}

func TestInvalidJSONNeverMatches(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		"", " ", "{", "{}}", "{} {}", "[1,]", "{'a':1}", `{"a":1,}`, "NaN", "01", "1.", "tru", "null null", `{"a":1,"a":2}`,
		"<html></html>", `"` + "\xff" + `"`, `"\ud800"`, "\xef\xbb\xbf{}", strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000),
	} {
		for _, m := range []match{{}, {path: "a"}, {path: "0"}, {value: json.RawMessage("null")}, {path: "a", value: json.RawMessage("1")}} {
			_, err := m.check([]byte(body))
			assert.ErrorIs(t, err, errInvalidJSON, "%.20q", body)
		}
	}
}

// FuzzMatch compares the matching of undecoded documents with that of decoded
// ones.
func FuzzMatch(f *testing.F) {
	for _, path := range []string{"", "a", "a.0", "a.0.b", "0", "a..b", "01"} {
		f.Add(path, `{"a":[{"b":1}],"0":true}`, "1")
		f.Add(path, `[[],{"a":0}]`, "")
		f.Add(path, `{"a":{"0":"x"}}`, `"x"`)
	}
	f.Fuzz(func(t *testing.T, path, body, value string) {
		if value != "" && !jsontext.Value(value).IsValid() {
			return
		}
		m := newMatch(path, value)
		reason, err := m.check([]byte(body))
		if !jsontext.Value(body).IsValid() {
			assert.ErrorIs(t, err, errInvalidJSON)
			return
		}
		require.NoError(t, err)
		assert.Equal(t, decodedMatch(t, path, decode(t, body), value), reason == "", "%q of %s: %s", path, body, value)
	})
}

func decode(t *testing.T, text string) (v any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.UseNumber()
	require.NoError(t, dec.Decode(&v))
	return normal(v)
}

// normal replaces the numbers of a decoded document by comparable ones.
func normal(v any) any {
	switch v := v.(type) {
	case json.Number:
		return parseNumber(string(v))
	case []any:
		for i := range v {
			v[i] = normal(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = normal(v[k])
		}
	}
	return v
}

func decodedMatch(t *testing.T, path string, v any, value string) bool {
	if path == "" && value == "" {
		return true
	}
	if path != "" {
		for part := range strings.SplitSeq(path, ".") {
			switch now := v.(type) {
			case map[string]any:
				member, found := now[part]
				if !found {
					return false
				}
				v = member
			case []any:
				i, ok := parseIndex(part)
				if !ok || i >= len(now) {
					return false
				}
				v = now[i]
			default:
				return false
			}
		}
	}
	if value != "" {
		return reflect.DeepEqual(v, decode(t, value))
	}
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case number:
		return v.digits != ""
	case []any:
		return len(v) > 0
	}
	return len(v.(map[string]any)) > 0
}
