package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"millrace/shared/platform/errs"
)

// body tells how an operation reads its request body: not at all, raw, or as
// JSON of a shape.
type body struct {
	field    []int // index of Body or RawBody in the input; nil if there is none
	raw      bool
	required bool
	of       reflect.Type
	shape    *shape // of Body; compiled when the operation is described
	nulls    []int  // index of Nulls in Body; nil if there is none
}

// Nulls is a field of a Body (json:"-") that lists the body's fields that are
// null, for operations that change what is given: null clears a field, where an
// absent one keeps its value.
type Nulls []string

// Has reports whether a field was null.
func (n Nulls) Has(field string) bool { return slices.Contains(n, field) }

// bodyOf returns the body of an input struct.
func bodyOf(in reflect.Type) *body {
	b := &body{}
	if f, ok := in.FieldByName("RawBody"); ok {
		if f.Type != reflect.TypeFor[[]byte]() {
			panic("httpapi: RawBody of " + in.String() + " is no []byte")
		}
		b.field, b.raw, b.of = f.Index, true, f.Type
	} else if f, ok := in.FieldByName("Body"); ok {
		b.field, b.of = f.Index, f.Type
		if b.of.Kind() == reflect.Struct {
			for f := range b.of.Fields() {
				if f.Type == reflect.TypeFor[Nulls]() {
					b.nulls = f.Index
				}
			}
		}
	}
	return b
}

// read reads and checks the body of a call. It holds memory until release,
// which is never nil, is called. Errors: those of ReadBody. Validation errors
// are stored in the call.
func (b *body) read(c *call, w http.ResponseWriter, r *http.Request, limit int64, memory *Bodies) (release func(), err error) {
	if b.field == nil {
		r.Body = http.NoBody // drained by the server
		return func() {}, nil
	}
	data, release, err := memory.ReadBody(w, r, limit)
	r.Body = http.NoBody
	if err != nil {
		return release, err
	}
	c.data, c.size = data, len(data)
	if !b.raw {
		c.details, c.missing = b.check(r, data)
	}
	return release, nil
}

// ReadBody reads the whole body of a request, up to limit bytes. It holds
// memory of b until release, which is never nil, is called; further calls do
// nothing. Errors: errs.TooLarge, errs.Unavailable if there is no memory,
// errs.Invalid for a body that ends early or arrives too slowly, and that of
// the request's context.
func (b *Bodies) ReadBody(w http.ResponseWriter, r *http.Request, limit int64) (data []byte, release func(), err error) {
	h := b.begin(w)
	if data, err = readAll(w, r, limit, h); err != nil {
		h.release()
	}
	h.came()
	return data, h.release, err
}

// readAll reads the whole body, up to limit bytes, into memory that grows as it
// arrives.
func readAll(w http.ResponseWriter, r *http.Request, limit int64, h *held) ([]byte, error) {
	tooLarge := errs.New(errs.TooLarge, "Request body is larger than %d bytes", limit)
	if r.ContentLength > limit {
		w.Header().Set("Connection", "close") // the rest is not worth reading
		return nil, tooLarge
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	most := limit + 1 // one more byte detects a body that is too large
	if r.ContentLength >= 0 {
		most = r.ContentLength + 1 // or the end of one that is not
	}
	var data []byte
	for {
		if len(data) == cap(data) {
			var err error
			if data, err = extended(r.Context(), data, most, h); err != nil {
				w.Header().Set("Connection", "close")
				return nil, err
			}
		}
		n, err := r.Body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case int64(len(data)) > limit:
			w.Header().Set("Connection", "close")
			return nil, tooLarge
		case errors.Is(err, io.EOF):
			return data, nil
		case h.gaveWay():
			w.Header().Set("Connection", "close")
			return nil, h.noMemory()
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded): // which ends the context, too
			return nil, errs.Wrap(errs.Invalid, err, "The request body arrived too slowly")
		case r.Context().Err() != nil:
			return nil, r.Context().Err()
		case errors.As(err, new(*http.MaxBytesError)):
			return nil, tooLarge
		default:
			return nil, errs.Wrap(errs.Invalid, err, "The request body could not be read")
		}
	}
}

// extended returns data with up to twice the capacity, at most most bytes.
func extended(ctx context.Context, data []byte, most int64, h *held) ([]byte, error) {
	size := int(min(max(int64(2*cap(data)), firstRead), most))
	if err := h.grow(ctx, size); err != nil {
		return nil, err
	}
	larger := make([]byte, len(data), size)
	copy(larger, data)
	h.shrink(cap(data))
	return larger, nil
}

// check returns what is wrong with a JSON body.
func (b *body) check(r *http.Request, data []byte) ([]errs.Detail, []absent) {
	if len(bytes.TrimLeft(data, " \t\r\n")) == 0 {
		if !b.required {
			return nil, b.absentAll()
		}
		return []errs.Detail{{Type: "missing", Loc: errs.Body(), Msg: "Field required"}}, nil
	}
	if ct := r.Header.Get("Content-Type"); !isJSON(ct) {
		return []errs.Detail{{
			Type: "content_type", Loc: errs.Body(),
			Msg: fmt.Sprintf("Input should be JSON, sent with Content-Type: application/json, not %s", clip(ct)),
		}}, nil
	}
	details, missing, err := b.shape.check(data)
	if err != nil {
		return []errs.Detail{malformed(err)}, nil
	}
	return details, missing
}

// absentAll returns the defaults of an absent optional body.
func (b *body) absentAll() []absent {
	if b.of.Kind() == reflect.Pointer {
		return nil
	}
	var out []absent
	for i, f := range b.shape.fields {
		if f.def.IsValid() {
			out = append(out, absent{loc: errs.Body(), of: b.shape, def: i})
		}
	}
	return out
}

// isJSON reports whether a content type is JSON or absent.
func isJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == "" || media == "application/json" || strings.HasSuffix(media, "+json")
}

// fill decodes the call's body into the input.
func (b *body) fill(c *call, in any) error {
	if b.field == nil {
		return nil
	}
	target := reflect.ValueOf(in).Elem().FieldByIndex(b.field)
	defer func() { c.data = nil }()
	if b.raw {
		target.SetBytes(c.data)
		return nil
	}
	if len(bytes.TrimLeft(c.data, " \t\r\n")) > 0 {
		if err := decodeInto(c.data, target.Addr().Interface()); err != nil {
			return undecodable(err)
		}
		if b.nulls != nil {
			target.FieldByIndex(b.nulls).Set(reflect.ValueOf(nullsOf(c.data)))
		}
	}
	for _, m := range c.missing {
		setDefault(target, m.loc[1:], m)
	}
	return nil
}

// nullsOf lists the fields of an object that are null.
func nullsOf(data []byte) (all Nulls) {
	var fields map[string]jsontext.Value
	if err := decodeInto(data, &fields); err != nil {
		return nil // it is no object, and was refused if it had to be
	}
	for name, value := range fields {
		if value.Kind() == 'n' {
			all = append(all, name)
		}
	}
	return all
}

// undecodable converts the error of a value that passed the check and was
// rejected by its type's own decoder.
func undecodable(err error) error {
	loc, msg := errs.Body(), "Input is not valid"
	var semantic *json.SemanticError
	if errors.As(err, &semantic) {
		for token := range semantic.JSONPointer.Tokens() {
			loc = append(loc, pathStep(token))
		}
		if e, ok := errors.AsType[*errs.Error](err); ok && e.Code == errs.Unprocessable {
			return e
		}
		if semantic.Err != nil {
			msg = "Value error, " + clip(semantic.Err.Error())
		}
	}
	return errs.Validation(errs.Detail{Type: "value_error", Loc: loc, Msg: msg})
}

// pathStep returns an array index of a path as a number.
func pathStep(token string) any {
	if n, err := strconv.Atoi(token); err == nil {
		return n
	}
	return token
}

// setDefault sets the default of an absent field, following loc from v. Map
// elements are copied out and in, because they cannot be modified in place.
func setDefault(v reflect.Value, loc []any, m absent) {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	if len(loc) == 0 {
		f := m.of.fields[m.def]
		v.FieldByIndex(f.path).Set(f.def)
		return
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Array:
		setDefault(v.Index(loc[0].(int)), loc[1:], m)
	case reflect.Map:
		key := reflect.ValueOf(loc[0]).Convert(v.Type().Key())
		elem := reflect.New(v.Type().Elem()).Elem()
		elem.Set(v.MapIndex(key))
		setDefault(elem, loc[1:], m)
		v.SetMapIndex(key, elem)
	case reflect.Struct:
		if field, ok := fieldByName(v, loc[0].(string)); ok {
			setDefault(field, loc[1:], m)
		}
	}
}

// fieldByName returns a struct's field by its JSON name.
func fieldByName(v reflect.Value, name string) (reflect.Value, bool) {
	for f, value := range v.Fields() {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && tag == "" && f.Type.Kind() == reflect.Struct:
			if inner, ok := fieldByName(value, name); ok {
				return inner, true
			}
		case tag == name || tag == "" && f.Name == name:
			return value, true
		}
	}
	return reflect.Value{}, false
}
