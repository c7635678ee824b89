package httpapi

import (
	stdjson "encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// Raw is JSON that a handler reads or writes itself, and that the API's
// description shows as a T. It is not validated: that is up to its reader. T is
// a struct.
type Raw[T any] stdjson.RawMessage

// described is a Raw of any type.
type described interface{ raw() }

func (Raw[T]) raw() {}

// Schema implements huma.SchemaProvider.
func (Raw[T]) Schema(r huma.Registry) *huma.Schema { return r.Schema(reflect.TypeFor[T](), true, "") }

// MarshalJSON implements json.Marshaler.
func (r Raw[T]) MarshalJSON() ([]byte, error) { return stdjson.RawMessage(r).MarshalJSON() }

// UnmarshalJSON implements json.Unmarshaler.
func (r *Raw[T]) UnmarshalJSON(data []byte) error {
	return (*stdjson.RawMessage)(r).UnmarshalJSON(data)
}
