package table

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Holds reports whether a condition holds for an item, which is nil if it does
// not exist. A nil condition holds.
func Holds(c Cond, item Item) bool {
	switch c := c.(type) {
	case nil:
		return true
	case CondExists:
		_, ok := item[c.Attr]
		return ok != c.Not
	case CondCompare:
		return compare(c, item)
	case CondIn:
		v, ok := item[c.Attr]
		return ok && slices.ContainsFunc(c.Values, v.Equal)
	case CondPrefix:
		v := item[c.Attr]
		return v.kind == String && strings.HasPrefix(v.str, c.Prefix)
	case CondContains:
		return contains(item[c.Attr], c.Value)
	case CondAll:
		for _, m := range c {
			if !Holds(m, item) {
				return false
			}
		}
		return true
	case CondAny:
		for _, m := range c {
			if Holds(m, item) {
				return true
			}
		}
		return false
	case CondNot:
		return !Holds(c.Cond, item)
	}
	panic(fmt.Sprintf("table: unknown condition %T", c))
}

func compare(c CondCompare, item Item) bool {
	v, ok := item[c.Attr]
	switch c.Op {
	case OpEq:
		return ok && v.Equal(c.Value)
	case OpNe:
		return !v.Equal(c.Value)
	}
	if v.kind != c.Value.kind {
		return false
	}
	var order int
	switch v.kind {
	case String, Binary:
		order = cmp.Compare(v.str, c.Value.str)
	case Number:
		order = compareDecimals(v.str, c.Value.str)
	default:
		return false
	}
	switch c.Op {
	case OpLt:
		return order < 0
	case OpLe:
		return order <= 0
	case OpGt:
		return order > 0
	}
	return order >= 0
}

func contains(v, part Value) bool {
	switch {
	case v.kind == String && part.kind == String, v.kind == Binary && part.kind == Binary:
		return strings.Contains(v.str, part.str)
	case v.kind == StringSet && part.kind == String, v.kind == NumberSet && part.kind == Number:
		return slices.Contains(v.many.set, part.str)
	case v.kind == ListKind:
		return slices.ContainsFunc(v.List(), part.Equal)
	}
	return false
}

// Apply returns the item after the actions, without changing the given one. A
// nil item starts with the key. It returns ErrInvalid if an action does not fit
// its attribute. The caller must use [CheckWrite] before and [CheckItem] after.
func Apply(key Key, item Item, actions []Action) (Item, error) {
	out := maps.Clone(item)
	if item == nil {
		out = make(Item, len(actions)+2)
		out["pk"] = Value{kind: String, str: key.PK}
		out["sk"] = Value{kind: String, str: key.SK}
	}
	for _, a := range actions {
		if err := apply(out, a); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func apply(item Item, a Action) (err error) {
	switch a := a.(type) {
	case ActSet:
		if _, ok := item[a.Attr]; !ok || !a.IfAbsent {
			item[a.Attr] = a.Value
		}
	case ActRemove:
		delete(item, a.Attr)
	case ActAdd:
		item[a.Attr], err = add(item[a.Attr], a)
	case ActDrop:
		v, ok := item[a.Attr]
		switch {
		case !ok:
		case v.kind != a.Value.kind:
			return unfit("take members out of", a.Attr, v)
		default:
			rest := slices.DeleteFunc(slices.Clone(v.Members()), func(m string) bool {
				return slices.Contains(a.Value.Members(), m)
			})
			item[a.Attr] = newSet(v.kind, rest)
			if len(rest) == 0 {
				delete(item, a.Attr)
			}
		}
	case ActAppend:
		v, ok := item[a.Attr]
		if ok && v.kind != ListKind {
			return unfit("append to", a.Attr, v)
		}
		item[a.Attr] = List(slices.Concat(v.List(), a.Value.List())...)
	default:
		panic(fmt.Sprintf("table: unknown action %T", a))
	}
	return err
}

func add(v Value, a ActAdd) (Value, error) {
	switch {
	case v.kind == None:
		return a.Value, nil
	case v.kind != a.Value.kind:
		return v, unfit("add to", a.Attr, v)
	case v.kind == Number:
		return addDecimals(v.str, a.Value.str)
	}
	return newSet(v.kind, union(v.kind, v.Members(), a.Value.Members())), nil //guard:store/sets arg 2.2 nil
}

// union merges two sorted sets.
func union(kind Kind, a, b []string) []string {
	order := compareMembers(kind)
	out := make([]string, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch c := order(a[0], b[0]); {
		case c < 0:
			out, a = append(out, a[0]), a[1:]
		case c > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			out, a, b = append(out, a[0]), a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}

func unfit(what, attr string, v Value) error {
	return fmt.Errorf("%w: cannot %s attribute %s, a %s", ErrInvalid, what, attr, v.kind)
}
