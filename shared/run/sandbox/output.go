package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxOutputDepth is the largest nesting depth of objects and arrays in an
// output.
const MaxOutputDepth = 100

// OutputError is the reason why an output is invalid, for the author of the
// task.
type OutputError string

// Error implements error.
func (e OutputError) Error() string { return "the output " + string(e) }

// CheckOutput returns an error if an output is not JSON that every reader of
// the service accepts. The rules are those of request bodies: one document in
// UTF-8, no duplicate keys in an object, no lone surrogates, at most
// MaxOutputDepth levels, no number outside the range of float64. The error is
// suitable for the author of the task.
func CheckOutput(data []byte) error { return CheckOutputFrom(bytes.NewReader(data)) }

// CheckOutputFrom is like [CheckOutput] for the data of r, and needs little
// memory. It reads r to its end or to the first violation. An error of r is
// returned as is.
func CheckOutputFrom(r io.Reader) error {
	source := &faultyReader{Reader: r}
	decoder := jsontext.NewDecoder(source)
	for documents := 0; ; {
		token, err := decoder.ReadToken()
		switch {
		case source.err != nil:
			return source.err
		case errors.Is(err, io.EOF) && documents == 1:
			return nil
		case err != nil:
			return refusedOutput(err)
		case documents == 1:
			return OutputError("is not JSON: data after the document")
		}
		switch token.Kind() {
		case '0':
			if !finite(token.String()) {
				return OutputError("has a number out of range at " + place(decoder.StackPointer()))
			}
		case '{', '[':
			if decoder.StackDepth() > MaxOutputDepth {
				return OutputError(fmt.Sprintf("is nested more than %d levels deep", MaxOutputDepth))
			}
		}
		if decoder.StackDepth() == 0 {
			documents++
		}
	}
}

// finite reports whether a float64 can represent a number. A short one without
// an exponent always fits.
func finite(number string) bool {
	if len(number) <= 300 && !strings.ContainsAny(number, "eE") {
		return true
	}
	_, err := strconv.ParseFloat(number, 64)
	return err == nil
}

// faultyReader records an error of a reader other than io.EOF.
type faultyReader struct {
	io.Reader
	err error
}

func (r *faultyReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

func refusedOutput(err error) OutputError {
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName) && ok:
		return OutputError("has a key twice: " + place(syntax.JSONPointer))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return OutputError("is not JSON: unexpected end of the document")
	case ok:
		return OutputError(fmt.Sprintf("is not JSON: %v at byte %d", syntax.Err, syntax.ByteOffset))
	}
	return OutputError("is not JSON: " + err.Error())
}

// place returns a pointer into the output, truncated if a key makes it long.
func place(p jsontext.Pointer) string {
	text := []rune(string(p))
	if len(text) > 200 {
		text = append(text[:200], '…')
	}
	return strconv.Quote(string(text))
}
