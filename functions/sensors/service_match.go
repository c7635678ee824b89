package sensors

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// match is the rule by which a response makes a polling sensor start a run.
type match struct {
	status int             // expected status; 0: any 2xx
	path   string          // of the selected value, such as "a.b.0.c"; "": the whole body
	value  json.RawMessage // that the selected value must equal; nil: it must be truthy
}

// errInvalidJSON means that a response is not the JSON document that it must be.
var errInvalidJSON = errors.New("the response is not valid JSON")

// ok reports whether a status is expected.
func (m *match) ok(status int) bool {
	if m.status == 0 {
		return status >= 200 && status <= 299
	}
	return status == m.status
}

// selects reports whether the body decides, too. If it does not, a body matches
// as it is.
func (m *match) selects() bool { return m.path != "" || m.value != nil }

// check reports why a body does not match; the reason is empty if it does. It
// has nothing of the body. A body must be one JSON document without duplicate
// names; if it is not, the error is errInvalidJSON.
func (m *match) check(body []byte) (reason string, err error) {
	if !jsontext.Value(body).IsValid() {
		return "", errInvalidJSON
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(body))
	what := "the response"
	if m.path != "" {
		what = m.path
		if !find(dec, strings.Split(m.path, ".")) {
			return what + " is not in the response", nil
		}
	}
	switch {
	case !m.selects():
	case m.value == nil:
		if !truthy(dec) {
			reason = what + " is false, null, zero or empty"
		}
	default:
		var want any
		values := json.NewDecoder(bytes.NewReader(m.value))
		values.UseNumber()
		if err := values.Decode(&want); err != nil {
			return "", fmt.Errorf("expected_value: %w", err)
		}
		if !equal(dec, want) {
			reason = what + " does not equal expected_value"
		}
	}
	return reason, nil
}

// The following functions read a document that was validated, so that its
// syntax errors need no handling. They decode no more of it than one token at a
// time, because a decoded document takes many times its size.

// find moves a decoder to the value of a path and reports whether there is one.
// In an object a part is a key, also if it is a number; in an array it is an
// index.
func find(dec *jsontext.Decoder, path []string) bool {
	for _, part := range path {
		switch dec.PeekKind() {
		case '{':
			if !findKey(dec, part) {
				return false
			}
		case '[':
			if !findIndex(dec, part) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func findKey(dec *jsontext.Decoder, key string) bool {
	_, _ = dec.ReadToken()
	for dec.PeekKind() == '"' {
		name, _ := dec.ReadToken()
		if name.String() == key {
			return true
		}
		_ = dec.SkipValue()
	}
	return false
}

func findIndex(dec *jsontext.Decoder, part string) bool {
	index, ok := parseIndex(part)
	if !ok {
		return false
	}
	_, _ = dec.ReadToken()
	for ; dec.PeekKind() != ']'; index-- {
		if index == 0 {
			return true
		}
		_ = dec.SkipValue()
	}
	return false
}

// parseIndex parses an array index: decimal digits without leading zeros.
func parseIndex(part string) (int, bool) {
	n, err := strconv.ParseUint(part, 10, 31)
	return int(n), err == nil && strconv.FormatUint(n, 10) == part
}

// truthy reports whether the next value is neither null, false, a zero, nor an
// empty string, array or object.
func truthy(dec *jsontext.Decoder) bool {
	token, _ := dec.ReadToken()
	switch token.Kind() {
	case 'n', 'f':
		return false
	case '"':
		return token.String() != ""
	case '0':
		return !sameNumber(token.String(), "0")
	case '[':
		return dec.PeekKind() != ']'
	case '{':
		return dec.PeekKind() != '}'
	}
	return true
}

// equal reports whether the next value equals want, which was decoded with
// json.Number: numbers by value, objects regardless of order. It reads the
// whole value only if they are equal.
func equal(dec *jsontext.Decoder, want any) bool {
	token, _ := dec.ReadToken()
	switch want := want.(type) {
	case nil:
		return token.Kind() == 'n'
	case bool:
		return token.Kind() == 'f' && !want || token.Kind() == 't' && want
	case string:
		return token.Kind() == '"' && token.String() == want
	case json.Number:
		return token.Kind() == '0' && sameNumber(token.String(), string(want))
	case []any:
		if token.Kind() != '[' {
			return false
		}
		for _, element := range want {
			if dec.PeekKind() == ']' || !equal(dec, element) {
				return false
			}
		}
		end, _ := dec.ReadToken()
		return end.Kind() == ']'
	case map[string]any:
		if token.Kind() != '{' {
			return false
		}
		members := 0
		for ; dec.PeekKind() == '"'; members++ {
			name, _ := dec.ReadToken()
			member, known := want[name.String()]
			if !known || !equal(dec, member) {
				return false
			}
		}
		_, _ = dec.ReadToken()
		return members == len(want)
	}
	return false
}

// sameNumber reports whether two JSON numbers have the same value, without the
// rounding of floating point, and without computing powers of ten, whose size a
// response decides.
func sameNumber(a, b string) bool { return parseNumber(a) == parseNumber(b) }

// number is digits times a power of ten. The digits have no zeros at either end.
// Zero is the zero value.
type number struct {
	negative bool
	digits   string // the whole text of a number with a larger exponent than any computer needs
	exponent int64
}

func parseNumber(text string) number {
	mantissa, power, _ := strings.Cut(strings.ToLower(text), "e")
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	short := strings.TrimRight(digits, "0")
	if short == "" {
		return number{}
	}
	exponent, err := strconv.ParseInt(cmp.Or(power, "0"), 10, 62)
	if err != nil {
		return number{digits: text}
	}
	return number{negative, short, exponent + int64(len(digits)-len(short)-len(fraction))}
}
