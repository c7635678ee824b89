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

	"github.com/go-json-experiment/json/jsontext"
)

// Decode reads one JSON document as a plain value: nil, bool, int64, float64,
// string, []any or map[string]any. Integers that do not fit an int64 stay
// json.Number, so that what passes through a flow untouched keeps every digit.
func Decode(raw json.RawMessage) (any, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	v, err := decodeValue(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not JSON: something follows the document")
	}
	return v, nil
}

// Valid reports whether a text is a JSON document that [Decode] reads, with no name
// twice in an object and all of it UTF-8. It takes no memory for its values.
func Valid(raw []byte) bool {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
	for {
		tok, err := dec.ReadToken()
		if err != nil || dec.StackDepth() > maxDepth {
			return false
		}
		if tok.Kind() == '0' {
			if _, err := plainNumber(json.Number(tok.String())); err != nil {
				return false
			}
		}
		if dec.StackDepth() == 0 {
			break
		}
	}
	_, err := dec.ReadToken()
	return errors.Is(err, io.EOF)
}

// decodeValue makes values of tokens as they come: a tree of them in between
// would take several times the memory.
func decodeValue(dec *jsontext.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested more than %d levels deep", maxDepth)
	}
	tok, err := dec.ReadToken()
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	switch tok.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		return tok.Bool(), nil
	case '"':
		return tok.String(), nil
	case '0':
		return plainNumber(json.Number(tok.String()))
	case '[':
		list := []any{}
		for dec.PeekKind() != ']' {
			v, err := decodeValue(dec, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, skipToken(dec)
	}
	object := map[string]any{}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("not JSON: %w", err)
		}
		key := name.String()
		if object[key], err = decodeValue(dec, depth+1); err != nil {
			return nil, err
		}
	}
	return object, skipToken(dec)
}

// skipToken reads the end of a list or an object.
func skipToken(dec *jsontext.Decoder) error {
	if _, err := dec.ReadToken(); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return nil
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
