package httpapi

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"millrace/shared/platform/errs"
)

// MaxDepth is the maximum nesting of objects and arrays in a body.
const MaxDepth = 100

// writing are the encoding options of responses: sorted maps, nil slices and
// maps as [] and {}, and omitempty and Number as in encoding/json.
var writing = json.JoinOptions(
	json.Deterministic(true),
	jsonv1.OmitEmptyWithLegacySemantics(true),
	json.WithMarshalers(json.MarshalToFunc(func(enc *jsontext.Encoder, n stdjson.Number) error {
		if n == "" {
			n = "0"
		}
		return enc.WriteValue(jsontext.Value(n))
	})),
)

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// writeAnswer writes a handler's output in one piece. If the value cannot be
// encoded it panics before anything is sent, and the framework answers with
// 500. A disconnected client is not an error.
func writeAnswer(w io.Writer, v any) error {
	buf := buffers.Get().(*bytes.Buffer)
	defer func() {
		if buf.Cap() <= 1<<20 {
			buf.Reset()
			buffers.Put(buf)
		}
	}()
	if err := json.MarshalWrite(buf, v, writing); err != nil {
		panic(fmt.Errorf("answer cannot be written as JSON: %w", err))
	}
	buf.WriteByte('\n')
	if w, ok := w.(http.ResponseWriter); ok {
		w.Header().Set("Content-Length", strconv.Itoa(buf.Len()))
	}
	_, _ = w.Write(buf.Bytes())
	return nil
}

// appendAnswer appends a part of a response.
func appendAnswer(buf []byte, v any) ([]byte, error) {
	part, err := json.Marshal(v, writing)
	return append(buf, part...), err
}

// decodeInto decodes strict JSON into v: names are case-sensitive; duplicate
// names, trailing data and invalid UTF-8 are errors.
func decodeInto(data []byte, v any) error { return json.Unmarshal(data, v) }

// Fields returns the fields of a raw body that is a JSON object, and nil for any
// other body: an empty one, another JSON value, or no JSON at all. Errors:
// errs.Unprocessable for an object that is not strict JSON: with duplicate
// names, nested deeper than MaxDepth, or with numbers out of range.
func Fields(body []byte) (map[string]stdjson.RawMessage, error) {
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return nil, nil
	}
	if !jsontext.Value(body).IsValid(jsontext.AllowDuplicateNames(true)) {
		return nil, nil
	}
	err := scan(body)
	out := map[string]stdjson.RawMessage{}
	if err == nil {
		err = decodeInto(body, &out)
	}
	if err != nil {
		return nil, errs.Validation(malformed(err))
	}
	return out, nil
}

// malformed returns the entry for a body that is not JSON. It does not quote
// the body.
func malformed(err error) errs.Detail {
	msg := "JSON decode error"
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntax):
		msg = fmt.Sprintf("JSON decode error: duplicate key %s", strconv.Quote(clip(syntax.JSONPointer.LastToken())))
	case errors.Is(err, errTrailing), errors.Is(err, errDepth), errors.Is(err, errNumber):
		msg = "JSON decode error: " + err.Error()
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		msg = "JSON decode error: unexpected end of the document"
	case errors.As(err, &syntax):
		msg = fmt.Sprintf("JSON decode error: %v at byte %d", syntax.Err, syntax.ByteOffset)
	}
	return errs.Detail{Type: "json_invalid", Loc: errs.Body(), Msg: msg}
}

var (
	errTrailing = errors.New("data after the document")
	errDepth    = fmt.Errorf("nested deeper than %d", MaxDepth)
	errNumber   = errors.New("a number is out of range")
)

// scan checks a document, without decoding it, for nesting over MaxDepth and
// numbers out of the range of float64.
func scan(data []byte) error {
	depth, inString := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString:
			switch c {
			case '\\':
				i++
			case '"':
				inString = false
			}
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return errDepth
			}
		case c == '}' || c == ']':
			depth--
		case '0' <= c && c <= '9':
			start := i
			for i+1 < len(data) && inNumber(data[i+1]) {
				i++
			}
			if text := data[start : i+1]; len(text) > 300 || bytes.ContainsAny(text, "eE") {
				if _, err := strconv.ParseFloat(string(text), 64); errors.Is(err, strconv.ErrRange) {
					return errNumber
				}
			}
		}
	}
	return nil
}

func inNumber(c byte) bool {
	return '0' <= c && c <= '9' || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-'
}

// clip shortens a text that is returned to its sender.
func clip(s string) string {
	const most = 256
	if len(s) <= most {
		return s
	}
	end := most
	for end > 0 && s[end]&0xC0 == 0x80 {
		end--
	}
	return s[:end] + "…"
}
