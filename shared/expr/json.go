package expr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Decode reads one JSON document as a plain value: nil, bool, int64, float64,
// string, []any or map[string]any. Integers that do not fit an int64 stay
// json.Number, so that what passes through a flow untouched keeps every digit.
func Decode(raw json.RawMessage) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not JSON: something follows the document")
	}
	return plain(v, 0)
}

func plain(v any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested more than %d levels deep", maxDepth)
	}
	switch v := v.(type) {
	case json.Number:
		return plainNumber(v)
	case []any:
		for i, e := range v {
			p, err := plain(e, depth+1)
			if err != nil {
				return nil, err
			}
			v[i] = p
		}
	case map[string]any:
		for k, e := range v {
			p, err := plain(e, depth+1)
			if err != nil {
				return nil, err
			}
			v[k] = p
		}
	}
	return v, nil
}

func plainNumber(n json.Number) (any, error) {
	s := string(n)
	if !strings.ContainsAny(s, ".eE") && s != "-0" {
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return i, nil
		}
		return n, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, fmt.Errorf("number out of range: %.40s", s)
	}
	return f, nil
}

// Encode writes a plain value as JSON: keys sorted, no HTML escaping, the same
// bytes for the same value. NaN and the infinities are refused.
func Encode(v any) (json.RawMessage, error) {
	if f, ok := v.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return nil, evalErrorf("%v cannot be written as JSON", f)
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		if bad, ok := errors.AsType[*json.UnsupportedValueError](err); ok {
			return nil, evalErrorf("%s cannot be written as JSON", bad.Str)
		}
		return nil, fmt.Errorf("not a JSON value: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
