package expr

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"sync"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// native converts a CEL value to plain JSON. Timestamps become RFC 3339 text,
// durations seconds ("90s"), bytes base64, types their names, an empty optional
// null; keys other than strings become text.
func native(v ref.Val, depth int) (any, error) {
	if depth > maxDepth {
		return nil, evalErrorf("the result is nested more than %d levels deep", maxDepth)
	}
	switch v := v.(type) {
	case nil, types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		if v <= math.MaxInt64 {
			return int64(v), nil
		}
		return json.Number(strconv.FormatUint(uint64(v), 10)), nil
	case types.Double:
		return float64(v), nil
	case types.String:
		return string(v), nil
	case types.Bytes:
		return base64.StdEncoding.EncodeToString(v), nil
	case types.Timestamp:
		return v.UTC().Format(time.RFC3339Nano), nil
	case types.Duration:
		return strconv.FormatFloat(v.Seconds(), 'f', -1, 64) + "s", nil
	case *types.Optional:
		if !v.HasValue() {
			return nil, nil
		}
		return native(v.GetValue(), depth)
	case ref.Type:
		return v.TypeName(), nil
	case traits.Lister:
		return nativeList(v, depth)
	case traits.Mapper:
		return nativeMap(v, depth)
	}
	return nil, evalErrorf("a %s cannot be written as JSON", v.Type().TypeName())
}

func nativeList(l traits.Lister, depth int) (any, error) {
	if list, ok := plainList(l); ok {
		return list, nil
	}
	out := make([]any, 0, int(l.Size().(types.Int)))
	for it := l.Iterator(); it.HasNext() == types.True; {
		e, err := native(it.Next(), depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func nativeMap(m traits.Mapper, depth int) (any, error) {
	if object, ok := m.Value().(map[string]any); ok {
		return object, nil
	}
	out := make(map[string]any, int(m.Size().(types.Int)))
	for it := m.Iterator(); it.HasNext() == types.True; {
		k := it.Next()
		key, ok := keyText(k)
		if !ok {
			return nil, evalErrorf("an object's key cannot be a %s", k.Type().TypeName())
		}
		if _, dup := out[key]; dup {
			return nil, evalErrorf("two keys of an object are both written %q", key)
		}
		e, err := native(m.Get(k), depth+1)
		if err != nil {
			return nil, err
		}
		out[key] = e
	}
	return out, nil
}

func keyText(k ref.Val) (string, bool) {
	switch k := k.(type) {
	case types.String:
		return string(k), true
	case types.Int:
		return strconv.FormatInt(int64(k), 10), true
	case types.Uint:
		return strconv.FormatUint(uint64(k), 10), true
	case types.Bool:
		return strconv.FormatBool(bool(k)), true
	case types.Double:
		return strconv.FormatFloat(float64(k), 'g', -1, 64), true
	}
	return "", false
}

// concatType is the type of a concatenation, a view of two lists. Its Value is
// a []any, too, but with values that may not be plain JSON.
var concatType = sync.OnceValue(func() reflect.Type {
	one := types.NewDynamicList(adapter{}, []any{nil})
	return reflect.TypeOf(one.Add(one))
})

// plainList returns a list of the scope unchanged: only those are backed by
// []any.
func plainList(l traits.Lister) ([]any, bool) {
	if reflect.TypeOf(l) == concatType() {
		return nil, false
	}
	list, ok := l.Value().([]any)
	return list, ok
}

// kindOf returns the JSON type of a plain value.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "a number"
}

// weigh counts the values below v, shared ones each time they occur, and stops
// once it exceeds limit. Text counts by length.
func weigh(v any, limit int) int {
	switch v := v.(type) {
	case string:
		return 1 + len(v)/64
	case types.String:
		return 1 + len(v)/64
	case types.Bytes:
		return 1 + len(v)/64
	case []any:
		return weighAll(v, limit)
	case []ref.Val:
		return weighAll(v, limit)
	case map[string]any:
		n := 1
		for k, e := range v {
			if n += 1 + len(k)/64 + weigh(e, limit-n); n > limit {
				break
			}
		}
		return n
	case map[ref.Val]ref.Val:
		n := 1
		for k, e := range v {
			if n += weigh(k, limit-n) + weigh(e, limit-n); n > limit {
				break
			}
		}
		return n
	case *types.Optional:
		if v.HasValue() {
			return weigh(v.GetValue(), limit)
		}
	case traits.Lister:
		if inner := v.Value(); isPlainContainer(inner) {
			return weigh(inner, limit)
		}
		n := 1
		for it := v.Iterator(); n <= limit && it.HasNext() == types.True; {
			n += weigh(it.Next(), limit-n)
		}
		return n
	case traits.Mapper:
		if inner := v.Value(); isPlainContainer(inner) {
			return weigh(inner, limit)
		}
		n := 1
		for it := v.Iterator(); n <= limit && it.HasNext() == types.True; {
			k := it.Next()
			n += weigh(k, limit-n) + weigh(v.Get(k), limit-n)
		}
		return n
	}
	return 1
}

func weighAll[E any](list []E, limit int) int {
	n := 1
	for _, e := range list {
		if n += weigh(e, limit-n); n > limit {
			break
		}
	}
	return n
}

func isPlainContainer(v any) bool {
	switch v.(type) {
	case []any, []ref.Val, map[string]any, map[ref.Val]ref.Val:
		return true
	}
	return false
}
