package expr

import (
	"math/bits"
	"strings"

	celops "cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// bounded are functions that charge before they work. They return false if the
// arguments have the wrong types.
var bounded = map[string]func(*interpreter.ExecutionFrame, []ref.Val) (ref.Val, bool){
	celops.Equals:     equal,
	celops.NotEquals:  notEqual,
	celops.In:         in,
	"replace":         replace,
	"join":            join,
	"distinct":        distinct,
	"json.encode":     jsonEncode,
	"sets.contains":   setsContains,
	"sets.intersects": setsIntersects,
	"sets.equivalent": setsEquivalent,
	"indexOf":         indexOf,
	"lastIndexOf":     lastIndexOf,
	"split":           splitText,
	"charAt":          charAt,
	"substring":       substring,
}

// chargeText charges for creating a text of size bytes.
func chargeText(frame *interpreter.ExecutionFrame, size int) {
	b := budgetOf(frame)
	if size > maxString {
		size = b.Left() // limits a single text, whatever the rest of the budget
		must(b.Spend(size + 1))
	}
	must(b.Spend(1 + size/64))
	must(b.Take(size))
}

func replace(frame *interpreter.ExecutionFrame, args []ref.Val) (ref.Val, bool) {
	text := make([]string, 3)
	for i := range text {
		s, ok := args[i].(types.String)
		if !ok {
			return nil, false
		}
		text[i] = string(s)
	}
	limit := -1
	if len(args) == 4 {
		n, ok := args[3].(types.Int)
		if !ok {
			return nil, false
		}
		limit = int(n)
	}
	n := strings.Count(text[0], text[1])
	if limit >= 0 {
		n = min(n, limit)
	}
	hi, grown := bits.Mul64(uint64(n), uint64(len(text[2])))
	if hi != 0 || grown > maxString {
		grown = maxString + 1
	}
	charge(frame, (len(text[0])+len(text[1]))/64) // to search it
	chargeText(frame, len(text[0])+int(grown))
	return types.String(strings.Replace(text[0], text[1], text[2], limit)), true
}

func join(frame *interpreter.ExecutionFrame, args []ref.Val) (ref.Val, bool) {
	list, ok := args[0].(traits.Lister)
	if !ok {
		return nil, false
	}
	var sep types.String
	if len(args) == 2 {
		if sep, ok = args[1].(types.String); !ok {
			return nil, false
		}
	}
	var out strings.Builder
	first := true
	for it := list.Iterator(); it.HasNext() == types.True; first = false {
		s, ok := it.Next().(types.String)
		if !ok {
			return types.NewErr("join takes a list of strings"), true
		}
		if !first {
			out.WriteString(string(sep))
		}
		out.WriteString(string(s))
		chargeText(frame, len(s)+len(sep))
		if out.Len() > maxString {
			chargeText(frame, out.Len())
		}
	}
	return types.String(out.String()), true
}

// distinct keeps the first of equal elements. Elements of the same kind that
// are numbers or texts are compared by key; others pairwise, and charged
// accordingly.
func distinct(frame *interpreter.ExecutionFrame, args []ref.Val) (ref.Val, bool) {
	list, ok := args[0].(traits.Lister)
	if !ok {
		return nil, false
	}
	var kept, others []ref.Val
	seen := map[any]bool{}
	for it := list.Iterator(); it.HasNext() == types.True; {
		v := it.Next()
		if key, ok := scalarKey(v); ok {
			if seen[key] {
				continue
			}
			seen[key] = true
		} else {
			if among(frame, others, v) {
				continue
			}
			others = append(others, v)
		}
		kept = append(kept, v)
	}
	return types.NewRefValList(adapter{}, kept), true
}

// scalarKey returns a key that is equal for scalars that are equal in CEL, such
// as 1, 1u and 1.0.
func scalarKey(v ref.Val) (any, bool) {
	switch v := v.(type) {
	case types.String, types.Bool, types.Null, types.Int:
		return v, true
	case types.Uint, types.Double:
		if i, ok := v.ConvertToType(types.IntType).(types.Int); ok && i.Equal(v) == types.True {
			return i, true
		}
		return v, v.Equal(v) == types.True // NaN does not equal itself
	}
	return nil, false
}

func among(frame *interpreter.ExecutionFrame, list []ref.Val, v ref.Val) bool {
	for _, other := range list {
		charge(frame, 4)
		chargeWeight(frame, other)
		if types.Equal(other, v) == types.True {
			return true
		}
	}
	return false
}

func jsonEncode(frame *interpreter.ExecutionFrame, args []ref.Val) (ref.Val, bool) {
	chargeWeight(frame, args[0])
	v, err := native(args[0], 0)
	if err != nil {
		return types.WrapErr(err), true
	}
	raw, err := Encode(v)
	if err != nil {
		return types.WrapErr(err), true
	}
	chargeText(frame, len(raw))
	return types.String(raw), true
}

func equal(frame *interpreter.ExecutionFrame, args []ref.Val) (ref.Val, bool) {
	if n := weigh(args[0], maxSteps); n > 1 {
		charge(frame, n+weigh(args[1], n))
	} else {
		charge(frame, 1)
	}
	return types.Equal(args[0], args[1]), true
}

func notEqual(frame *interpreter.ExecutionFrame, args []ref.Val) (ref.Val, bool) {
	v, ok := equal(frame, args)
	return types.Bool(v != types.True), ok
}

func in(frame *interpreter.ExecutionFrame, args []ref.Val) (ref.Val, bool) {
	c, ok := args[1].(traits.Container)
	if !ok {
		return nil, false
	}
	if _, isList := c.(traits.Lister); isList {
		chargeWeight(frame, args[1])
	} else {
		charge(frame, 1)
	}
	return c.Contains(args[0]), true
}

func two(args []ref.Val) (a, b traits.Lister, ok bool) {
	a, okA := args[0].(traits.Lister)
	b, okB := args[1].(traits.Lister)
	return a, b, okA && okB
}

func subset(frame *interpreter.ExecutionFrame, of, list traits.Lister) bool {
	for it := list.Iterator(); it.HasNext() == types.True; {
		chargeWeight(frame, of)
		if of.Contains(it.Next()) != types.True {
			return false
		}
	}
	return true
}

func setsContains(frame *interpreter.ExecutionFrame, args []ref.Val) (ref.Val, bool) {
	a, b, ok := two(args)
	return types.Bool(ok && subset(frame, a, b)), ok
}

func setsEquivalent(frame *interpreter.ExecutionFrame, args []ref.Val) (ref.Val, bool) {
	a, b, ok := two(args)
	return types.Bool(ok && subset(frame, a, b) && subset(frame, b, a)), ok
}

func setsIntersects(frame *interpreter.ExecutionFrame, args []ref.Val) (ref.Val, bool) {
	a, b, ok := two(args)
	if !ok {
		return nil, false
	}
	for it := a.Iterator(); it.HasNext() == types.True; {
		chargeWeight(frame, b)
		if b.Contains(it.Next()) == types.True {
			return types.True, true
		}
	}
	return types.False, true
}
