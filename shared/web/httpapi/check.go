package httpapi

import (
	"bytes"
	"encoding"
	"encoding/base64"
	"errors"
	"io"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"millrace/shared/platform/errs"
)

// maxDetails bounds the entries of one response.
const maxDetails = 100

// checker validates one document against a shape and collects errors.
type checker struct {
	dec     *jsontext.Decoder
	loc     []any
	details []errs.Detail
	missing []absent
}

// absent is a field with a default that was not sent.
type absent struct {
	loc []any // of the object
	of  *shape
	def int // index into its fields
}

// check validates data, which is one JSON document, against the shape. It
// returns an error if the document is not JSON.
func (s *shape) check(data []byte) ([]errs.Detail, []absent, error) {
	if err := scan(data); err != nil {
		return nil, nil, err
	}
	c := checker{dec: jsontext.NewDecoder(bytes.NewBuffer(data)), loc: errs.Body()}
	if err := c.value(s); err != nil {
		return nil, nil, err
	}
	if _, err := c.dec.ReadToken(); !errors.Is(err, io.EOF) {
		if err == nil || errors.As(err, new(*jsontext.SyntacticError)) {
			err = errTrailing
		}
		return nil, nil, err
	}
	return c.details, c.missing, nil
}

func (c *checker) value(s *shape) error {
	kind := c.dec.PeekKind()
	if kind == 'n' && s.nullable || s.kind == anyShape {
		raw, err := c.dec.ReadValue()
		if err == nil && s.kind == anyShape && kind != 'n' {
			c.schemaType(s, raw)
		}
		return err
	}
	if s.of != nil {
		s = s.of
	}
	switch s.kind {
	case objectShape, mapShape:
		if kind == '{' {
			return c.object(s)
		}
		if s.kind == objectShape {
			return c.wrong(s, "model_attributes_type", "Input should be a valid dictionary or object to extract fields from")
		}
		return c.wrong(s, "dict_type", "Input should be a valid dictionary")
	case arrayShape:
		if kind != '[' {
			return c.wrong(s, "list_type", "Input should be a valid list")
		}
		return c.array(s)
	case stringShape, bytesShape:
		if kind != '"' {
			return c.wrong(s, "string_type", "Input should be a valid string")
		}
		tok, err := c.dec.ReadToken()
		if err == nil {
			c.text(s, tok.String())
		}
		return err
	case boolShape:
		if kind != 't' && kind != 'f' {
			return c.wrong(s, "bool_type", "Input should be a valid boolean")
		}
		_, err := c.dec.ReadToken()
		return err
	case integerShape:
		if kind != '0' {
			return c.wrong(s, "int_type", "Input should be a valid integer")
		}
	case numberShape:
		if kind != '0' {
			return c.wrong(s, "float_type", "Input should be a valid number")
		}
	}
	raw, err := c.dec.ReadValue()
	if err == nil {
		c.number(s, raw)
	}
	return err
}

func (c *checker) object(s *shape) error {
	if _, err := c.dec.ReadToken(); err != nil {
		return err
	}
	var seen [64]bool
	present := seen[:]
	if len(s.fields) > len(seen) {
		present = make([]bool, len(s.fields))
	}
	count := 0
	for c.dec.PeekKind() != '}' {
		name, err := c.dec.ReadToken()
		if err != nil {
			return err
		}
		key := name.String()
		count++
		c.loc = append(c.loc, key)
		if err := c.member(s, key, present); err != nil {
			return err
		}
		c.loc = c.loc[:len(c.loc)-1]
	}
	if _, err := c.dec.ReadToken(); err != nil {
		return err
	}
	for i, f := range s.fields {
		switch {
		case present[i]:
		case f.required:
			c.loc = append(c.loc, f.name)
			c.add("missing", "Field required", nil)
			c.loc = c.loc[:len(c.loc)-1]
		case f.def.IsValid():
			c.missing = append(c.missing, absent{loc: slices.Clone(c.loc), of: s, def: i})
		}
	}
	if s.kind == mapShape {
		c.size(s, count)
	}
	return nil
}

func (c *checker) member(s *shape, key string, present []bool) error {
	if s.kind == mapShape {
		return c.value(s.elem)
	}
	if i, ok := s.index[key]; ok {
		present[i] = true
		return c.value(s.fields[i].shape)
	}
	raw, err := c.dec.ReadValue()
	if err == nil && !s.open {
		c.add("extra_forbidden", "Extra inputs are not permitted", echo(raw))
	}
	return err
}

func (c *checker) array(s *shape) error {
	if _, err := c.dec.ReadToken(); err != nil {
		return err
	}
	n := 0
	for ; c.dec.PeekKind() != ']'; n++ {
		c.loc = append(c.loc, n)
		if err := c.value(s.elem); err != nil {
			return err
		}
		c.loc = c.loc[:len(c.loc)-1]
	}
	if _, err := c.dec.ReadToken(); err != nil {
		return err
	}
	c.size(s, n)
	return nil
}

// wrong reads a value of the wrong kind.
func (c *checker) wrong(s *shape, kind, msg string) error {
	raw, err := c.dec.ReadValue()
	if err != nil {
		return err
	}
	var input any
	if !s.secret {
		input = echo(raw)
	}
	c.add(kind, msg, input)
	return nil
}

func (c *checker) add(kind, msg string, input any) {
	if len(c.details) < maxDetails {
		c.details = append(c.details, errs.Detail{Type: kind, Loc: slices.Clone(c.loc), Msg: msg, Input: input})
	}
}

// echo returns a wrong value for the error if it is a scalar or short.
func echo(raw jsontext.Value) any {
	const most = 1024
	if len(raw) > most {
		return nil
	}
	return raw.Clone()
}

// text checks a string.
func (c *checker) text(s *shape, v string) {
	input := any(clip(v))
	if s.secret {
		input = nil
	}
	if s.kind == bytesShape {
		if _, err := base64.StdEncoding.DecodeString(v); err != nil {
			c.add("base64_decode", "Base64 decode error", input)
		}
		return
	}
	if s.text != nil {
		target := reflect.New(s.text).Interface().(encoding.TextUnmarshaler)
		if err := target.UnmarshalText([]byte(v)); err != nil {
			if s.text == timeType {
				c.add("datetime_parsing", "Input should be a valid datetime in RFC 3339", input)
			} else {
				c.add("value_error", "Value error, "+clip(err.Error()), input)
			}
			return
		}
	}
	c.constraints(s, v, input)
}
