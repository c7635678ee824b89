package flowspec

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// maxNumber is the largest number of digits, and the largest exponent, of a
// number in a schema or in parameters: comparing numbers computes with all
// digits.
const maxNumber = 400

// checkNumbers rejects too large numbers and too deeply nested values, and
// returns the nesting depth of v.
func checkNumbers(v any, depth int) (int, error) {
	if depth > maxDepth {
		return 0, fmt.Errorf("nested more than %d levels deep", maxDepth)
	}
	deepest := depth
	switch v := v.(type) {
	case json.Number:
		digits, exponent, _ := strings.Cut(strings.ToLower(string(v)), "e")
		e, err := strconv.Atoi(exponent)
		if len(digits) > maxNumber || exponent != "" && (err != nil || e > maxNumber || e < -maxNumber) {
			return 0, fmt.Errorf("a number may have at most %d digits", maxNumber)
		}
	case []any:
		for _, e := range v {
			d, err := checkNumbers(e, depth+1)
			if err != nil {
				return 0, err
			}
			deepest = max(deepest, d)
		}
	case map[string]any:
		for _, e := range v {
			d, err := checkNumbers(e, depth+1)
			if err != nil {
				return 0, err
			}
			deepest = max(deepest, d)
		}
	}
	return deepest, nil
}

// maxDepth is the largest nesting of parameters.
const maxDepth = 200

// weight counts the values in v, text and numbers by length.
func weight(v any) int {
	switch v := v.(type) {
	case string:
		return 1 + len(v)/64
	case json.Number:
		return 1 + len(v)/4
	case []any:
		n := 1
		for _, e := range v {
			n += weight(e)
		}
		return n
	case map[string]any:
		n := 1
		for k, e := range v {
			n += 1 + len(k)/64 + weight(e)
		}
		return n
	}
	return 1
}

// canonical returns a text that is the same for values that are equal in JSON
// Schema: 1, 1.0 and 1e0 are, as are objects with their keys in another order.
func canonical(v any) string {
	if s, ok := v.(string); ok { // the usual case in an enum
		return `"` + s
	}
	var out strings.Builder
	writeCanonical(&out, v)
	return out.String()
}

func writeCanonical(out *strings.Builder, v any) {
	switch v := v.(type) {
	case string:
		out.WriteString(strconv.Itoa(len(v)))
		out.WriteByte('"')
		out.WriteString(v)
	case json.Number:
		out.WriteString(canonicalNumber(string(v)))
	case []any:
		out.WriteByte('[')
		for _, e := range v {
			writeCanonical(out, e)
			out.WriteByte(',')
		}
		out.WriteByte(']')
	case map[string]any:
		out.WriteByte('{')
		for _, k := range slices.Sorted(maps.Keys(v)) {
			writeCanonical(out, k)
			writeCanonical(out, v[k])
			out.WriteByte(',')
		}
		out.WriteByte('}')
	default:
		fmt.Fprint(out, v) // null and the booleans
	}
}

func canonicalNumber(s string) string {
	if isPlainInteger(s) {
		return s
	}
	if n, ok := new(big.Rat).SetString(s); ok {
		return n.RatString()
	}
	return s
}

// isPlainInteger reports whether a number is an integer in its canonical form.
func isPlainInteger(s string) bool {
	return s != "-0" && !strings.ContainsAny(s, ".eE")
}

// typeOf returns a value's type and reports whether it is in want.
func typeOf(v any, want []string) (got string, ok bool) {
	switch v := v.(type) {
	case nil:
		got = "null"
	case bool:
		got = "boolean"
	case string:
		got = "string"
	case []any:
		got = "array"
	case map[string]any:
		got = "object"
	case json.Number:
		got = "number"
		if slices.Contains(want, "integer") && isInteger(string(v)) {
			return "integer", true
		}
	}
	return got, slices.Contains(want, got)
}

func isInteger(s string) bool {
	if isPlainInteger(s) {
		return true
	}
	n, ok := new(big.Rat).SetString(s)
	return ok && n.IsInt()
}
