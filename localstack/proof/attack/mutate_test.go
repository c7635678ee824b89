package attack

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// raw is text that is sent verbatim, whether it is JSON or not.
type raw string

// nasty are values that often cause bugs.
var nasty = []any{
	nil, true, "", "\x00", -1, 1 << 53, 1.5, []any{}, object{}, object{"": nil}, []any{nil, []any{nil}},
	raw("1e400"), raw("-0"), raw("99999999999999999999999999"), raw("-9223372036854775809"), raw("1E-400"), raw("01"), raw("NaN"), raw("+1"), raw("'x'"),
	raw(`"\u0000"`), raw(`"\ud800"`), raw(`"\udc00\ud800"`), raw("\"\xff\xfe\""), raw("\"\x01\""), raw(`"\x"`), raw(`"`), raw(`{"a":1,"a":2}`), raw(`{"a":1,"\u0061":2}`),
	raw(strings.Repeat("[", 101) + strings.Repeat("]", 101)), raw(strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000)), raw(strings.Repeat("[", 20_000)),
	strings.Repeat("x", 100_000), strings.Repeat("é", 129), raw("1" + strings.Repeat("0", 10_000)),
	"../../../etc/passwd", "..", ".", "a/b", "a#b", "a%00b", "%", "%2e%2e%2f", "\u202e", "\r\nX-Injected: 1", "' OR 1=1 --", "{{7*7}}", "${{ secrets.x }}", "${{", "<svg/onload=1>",
	"9999-12-31T23:59:59Z", "0000-00-00", "s3://other/key", "http://169.254.169.254/", "__svc_x", "__proto__", "latest",
}

// encode writes a value as JSON, with sorted names and verbatim raw pieces.
func encode(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case raw:
		b.WriteString(string(v))
	case object:
		b.WriteByte('{')
		for i, name := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b.WriteByte(',')
			}
			encode(b, name)
			b.WriteByte(':')
			encode(b, v[name])
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			encode(b, v[i])
		}
		b.WriteByte(']')
	default:
		data, err := json.Marshal(v)
		if err != nil {
			panic(err) // strings and numbers
		}
		b.Write(data)
	}
}

// mutate changes one place of a value, possibly the whole value.
func mutate(rng *rand.Rand, v any) any {
	if rng.IntN(8) == 0 {
		return nasty[rng.IntN(len(nasty))]
	}
	switch v := v.(type) {
	case object:
		v = maps.Clone(v)
		keys := slices.Sorted(maps.Keys(v))
		if len(keys) == 0 || rng.IntN(6) == 0 {
			extra := []string{"extra", "__proto__", "Flow_Name", "a\x00b", strings.Repeat("k", 5000)}
			v[extra[rng.IntN(len(extra))]] = nasty[rng.IntN(len(nasty))]
			return v
		}
		key := keys[rng.IntN(len(keys))]
		switch rng.IntN(6) {
		case 0:
			delete(v, key)
		case 1: // a duplicate name
			var b bytes.Buffer
			encode(&b, object{key: v[key]})
			inner := strings.TrimSuffix(strings.TrimPrefix(b.String(), "{"), "}")
			return raw("{" + inner + "," + inner + "}")
		default:
			v[key] = mutate(rng, v[key])
		}
		return v
	case []any:
		v = slices.Clone(v)
		if len(v) == 0 || rng.IntN(6) == 0 {
			return append(v, nasty[rng.IntN(len(nasty))])
		}
		i := rng.IntN(len(v))
		v[i] = mutate(rng, v[i])
		return v
	}
	return nasty[rng.IntN(len(nasty))]
}

// garble changes the bytes of a body.
func garble(rng *rand.Rand, body []byte) []byte {
	switch rng.IntN(9) {
	case 0:
		return body[:rng.IntN(len(body)+1)]
	case 1:
		return append(body, body...)
	case 2:
		return append([]byte("\xef\xbb\xbf"), body...)
	case 3:
		return nil
	case 4:
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(body) // writing to a buffer does not fail
		_ = w.Close()
		return b.Bytes()
	case 5:
		return append(body, bytes.Repeat([]byte{' '}, 4<<20)...)
	case 6:
		return []byte("a=b&c=d")
	default:
		out := slices.Clone(body)
		for range 1 + rng.IntN(4) {
			if len(out) > 0 {
				out[rng.IntN(len(out))] = byte(rng.IntN(256))
			}
		}
		return out
	}
}

// flip replaces one character of a token.
func flip(rng *rand.Rand, s string) string {
	if s == "" {
		return "x"
	}
	i, to := rng.IntN(len(s)), byte('A'+rng.IntN(26))
	if s[i] == to {
		to = '0'
	}
	return s[:i] + string(to) + s[i+1:]
}
