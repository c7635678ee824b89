package httpapi

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"millrace/shared/errs"
)

// MaxDepth is how deeply objects and arrays of a body may be nested.
const MaxDepth = 100

// writing is how answers are written: maps in order, nil slices and maps as []
// and {}, omitempty as encoding/json knows it, and its Number as a number.
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

// writeJSON writes v in one piece, so that nothing is sent of a value that
// cannot be written.
func writeJSON(w io.Writer, v any) error {
	buf := buffers.Get().(*bytes.Buffer)
	defer func() {
		if buf.Cap() <= 1<<20 {
			buf.Reset()
			buffers.Put(buf)
		}
	}()
	if err := json.MarshalWrite(buf, v, writing); err != nil {
		buf.Reset()
		return err
	}
	buf.WriteByte('\n')
	_, err := w.Write(buf.Bytes())
	return err
}

// decodeInto reads strict JSON into v: names match with case, duplicate names,
// trailing data and invalid UTF-8 are errors.
func decodeInto(data []byte, v any) error { return json.Unmarshal(data, v) }

// malformed is the entry for a body that is no JSON. The body is not repeated.
func malformed(err error) errs.Detail {
	msg := "JSON decode error"
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntax):
		msg = fmt.Sprintf("JSON decode error: duplicate key %s", strconv.Quote(clip(syntax.JSONPointer.LastToken())))
	case errors.Is(err, errTrailing), errors.Is(err, errDepth):
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
)

// tooDeep scans for nesting over MaxDepth without decoding.
func tooDeep(data []byte) bool {
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
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// clip shortens a text that is repeated to whoever sent it.
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
