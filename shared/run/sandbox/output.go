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

// MaxOutputDepth is how deeply objects and arrays of an output may be nested.
const MaxOutputDepth = 100

// OutputError says why an output is refused, for the author of the task.
type OutputError string

// Error implements error.
func (e OutputError) Error() string { return "the output " + string(e) }

// CheckOutput tells why an output is not JSON that every reader of the service
// takes, by the rules of request bodies: one document in UTF-8, no key twice in
// an object, no lone surrogates, at most MaxOutputDepth levels, no number that
// float64 cannot hold. The error is fit for the author of the task.
func CheckOutput(data []byte) error { return CheckOutputFrom(bytes.NewReader(data)) }

// CheckOutputFrom is [CheckOutput] of what r holds, in little memory. It reads
// to the end of r, or to the first fault; an error of r is returned as it is.
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

// finite tells whether a float64 holds a number; a short one without an exponent fits.
func finite(number string) bool {
	if len(number) <= 300 && !strings.ContainsAny(number, "eE") {
		return true
	}
	_, err := strconv.ParseFloat(number, 64)
	return err == nil
}

// faultyReader keeps an error of a reader that is not its end.
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

// place is a pointer into the output, cut where a key makes it long.
func place(p jsontext.Pointer) string {
	text := []rune(string(p))
	if len(text) > 200 {
		text = append(text[:200], '…')
	}
	return strconv.Quote(string(text))
}
