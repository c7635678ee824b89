package table

import (
	"fmt"
	"slices"
	"strings"
)

// CheckWrite rejects a write that is invalid for any item: a bad key, an
// attribute in two actions, a changed key attribute, or a condition or action
// that DynamoDB does not accept. Errors are ErrLimit or ErrInvalid. [CheckItem]
// checks the item of a Put.
func CheckWrite(w Write) error {
	switch w := w.(type) {
	case Put:
		return CheckCond(w.If)
	case Update:
		if err := CheckKey(w.Key); err != nil {
			return err
		}
		if err := checkActions(w.Do); err != nil {
			return err
		}
		return CheckCond(w.If)
	case Delete:
		if err := CheckKey(w.Key); err != nil {
			return err
		}
		return CheckCond(w.If)
	case Check:
		if err := CheckKey(w.Key); err != nil {
			return err
		}
		if w.If == nil {
			return fmt.Errorf("%w: a check without a condition", ErrInvalid)
		}
		return CheckCond(w.If)
	}
	return fmt.Errorf("%w: unknown write %T", ErrInvalid, w)
}

func checkActions(actions []Action) error {
	bytes := 0
	for i, a := range actions {
		attr, v, err := parts(a)
		switch {
		case err != nil:
			return err
		case attr == "":
			return fmt.Errorf("%w: action without an attribute", ErrInvalid)
		case attr == "pk" || attr == "sk":
			return fmt.Errorf("%w: key attribute %s cannot be changed", ErrInvalid, attr)
		}
		for _, b := range actions[:i] {
			if other, _, _ := parts(b); other == attr {
				return fmt.Errorf("%w: attribute %s in two actions", ErrInvalid, attr)
			}
		}
		bytes += v.Size()
	}
	// An action takes at most about seven operators or names.
	if len(actions) > MaxOperators || bytes > MaxExpressionValues {
		return fmt.Errorf("%w: update of %d actions and %d bytes", ErrLimit, len(actions), bytes)
	}
	if text := updateText(actions); text > MaxExpressionBytes {
		return fmt.Errorf("%w: update of %d actions, about %d bytes of text, at most %d", ErrLimit, len(actions), text, MaxExpressionBytes)
	}
	return nil
}

// parts returns the attribute and value of an action and checks the value's
// kind.
func parts(a Action) (attr string, v Value, err error) {
	ok := true
	switch a := a.(type) {
	case ActSet:
		attr, v, ok = a.Attr, a.Value, a.Value.kind != None
	case ActRemove:
		attr = a.Attr
	case ActAdd:
		attr, v = a.Attr, a.Value
		ok = v.kind == Number || v.kind == NumberSet || v.kind == StringSet
	case ActDrop:
		attr, v = a.Attr, a.Value
		ok = v.kind == NumberSet || v.kind == StringSet
	case ActAppend:
		attr, v, ok = a.Attr, a.Value, a.Value.kind == ListKind
	default:
		return "", v, fmt.Errorf("%w: unknown action %T", ErrInvalid, a)
	}
	if !ok {
		return attr, v, fmt.Errorf("%w: %T of attribute %s with a %s", ErrInvalid, a, attr, v.kind)
	}
	return attr, v, nil
}

// CheckCond rejects a condition that DynamoDB does not accept: an In of over
// 100 values, an ordering of unordered kinds, more than 300 operators, or a
// text over the limit of an expression. Errors are ErrLimit or ErrInvalid.
func CheckCond(c Cond) error {
	operators := 0
	if err := checkCond(c, &operators); err != nil {
		return err
	}
	if operators > MaxOperators {
		return fmt.Errorf("%w: condition of %d operators, at most %d", ErrLimit, operators, MaxOperators)
	}
	if text := condText(c); text > MaxExpressionBytes {
		return fmt.Errorf("%w: condition of about %d bytes of text, at most %d", ErrLimit, text, MaxExpressionBytes)
	}
	return nil
}

func checkCond(c Cond, operators *int) error {
	*operators++
	switch c := c.(type) {
	case nil, CondExists:
	case CondCompare:
		ordered := c.Value.kind == String || c.Value.kind == Number || c.Value.kind == Binary
		if c.Value.kind == None || c.Op > OpNe && !ordered {
			return fmt.Errorf("%w: attribute %s compared with a %s", ErrInvalid, c.Attr, c.Value.kind)
		}
		return checkValue(c.Value, 0)
	case CondIn:
		if len(c.Values) == 0 || len(c.Values) > MaxIn {
			return fmt.Errorf("%w: In of %d values, 1 to %d", ErrLimit, len(c.Values), MaxIn)
		}
		for _, v := range c.Values {
			if err := checkValue(v, 0); err != nil {
				return err
			}
		}
	case CondPrefix:
	case CondContains:
		if k := c.Value.kind; k != String && k != Number && k != Binary {
			return fmt.Errorf("%w: Contains with a %s", ErrInvalid, k)
		}
		return checkValue(c.Value, 0)
	case CondAll:
		return checkConds(c, operators)
	case CondAny:
		return checkConds(c, operators)
	case CondNot:
		if c.Cond == nil {
			return fmt.Errorf("%w: Not of nothing", ErrInvalid)
		}
		return checkCond(c.Cond, operators)
	default:
		return fmt.Errorf("%w: unknown condition %T", ErrInvalid, c)
	}
	return nil
}

func checkConds(cs []Cond, operators *int) error {
	for _, c := range cs {
		if err := checkCond(c, operators); err != nil {
			return err
		}
	}
	return nil
}

// CheckTransaction checks a transaction's writes against the limits that do not
// depend on the stored items: their number, that their items are distinct, and
// each by [CheckWrite]. Errors are ErrLimit or ErrInvalid.
func CheckTransaction(writes []Write) error {
	if len(writes) == 0 || len(writes) > MaxTransactItems {
		return fmt.Errorf("%w: transaction of %d writes, 1 to %d", ErrLimit, len(writes), MaxTransactItems)
	}
	seen := make(map[Key]int, len(writes))
	for i, w := range writes {
		if w == nil {
			return fmt.Errorf("%w: write %d is nil", ErrInvalid, i)
		}
		if err := CheckWrite(w); err != nil {
			return fmt.Errorf("write %d: %w", i, err)
		}
		key := w.Target()
		if j, twice := seen[key]; twice {
			return fmt.Errorf("%w: writes %d and %d are of the same item", ErrLimit, j, i)
		}
		seen[key] = i
	}
	return nil
}

// CheckBatch checks the writes of a BatchWrite: Puts and Deletes of distinct
// items, without conditions. Errors are ErrLimit or ErrInvalid.
func CheckBatch(writes []Write) error {
	seen := make(map[Key]bool, len(writes))
	for i, w := range writes {
		var cond Cond
		switch w := w.(type) {
		case Put:
			cond = w.If
		case Delete:
			cond = w.If
		default:
			return fmt.Errorf("%w: %T in a batch", ErrInvalid, w)
		}
		key := w.Target()
		switch {
		case cond != nil:
			return fmt.Errorf("%w: condition in a batch", ErrInvalid)
		case seen[key]:
			return fmt.Errorf("%w: write %d is of an item already written", ErrLimit, i)
		}
		seen[key] = true
		if err := CheckKey(key); err != nil {
			return fmt.Errorf("write %d: %w", i, err)
		}
	}
	return nil
}

// CheckKeys checks the keys of a BatchGet: valid and distinct.
func CheckKeys(keys []Key) error {
	seen := make(map[Key]bool, len(keys))
	for _, k := range keys {
		if err := CheckKey(k); err != nil {
			return err
		}
		if seen[k] {
			return fmt.Errorf("%w: the same key twice", ErrLimit)
		}
		seen[k] = true
	}
	return nil
}

// CheckQuery rejects a query that DynamoDB does not accept: an empty or
// overlong key, a consistent read of an index, a filter on the key attributes
// or on attributes that the index does not hold, a projection of an index or
// one that [CheckOnly] rejects, an unknown index. Errors are ErrLimit or
// ErrInvalid.
func CheckQuery(q Query) error {
	pk, sk := q.Index.Attributes()
	bound := q.Range.From
	if q.Range.Kind == RangeAll {
		bound = "-"
	}
	if err := checkPair(pk, q.PK, sk, bound); err != nil {
		return err
	}
	if q.Range.Kind == RangeBetween {
		if err := checkPair(pk, q.PK, sk, q.Range.To); err != nil {
			return err
		}
	}
	switch {
	case q.Index != "" && !q.Index.known():
		return fmt.Errorf("%w: no index %s", ErrInvalid, q.Index)
	case q.Index != "" && q.Consistent:
		return fmt.Errorf("%w: an index cannot be read consistently", ErrInvalid)
	case q.Limit < 0:
		return fmt.Errorf("%w: limit %d", ErrInvalid, q.Limit)
	case mentions(q.Filter, func(attr string) bool { return attr == pk || attr == sk }):
		return fmt.Errorf("%w: filter on the key attributes %s, %s", ErrInvalid, pk, sk)
	case q.Index != "" && mentions(q.Filter, func(attr string) bool { return attr != "pk" && attr != "sk" }):
		return fmt.Errorf("%w: filter on what index %s does not hold", ErrInvalid, q.Index)
	case q.Index != "" && len(q.Only) > 0:
		return fmt.Errorf("%w: projection of index %s, which holds keys alone", ErrInvalid, q.Index)
	}
	if err := CheckOnly(q.Only); err != nil {
		return err
	}
	return CheckCond(q.Filter)
}

// mentions reports whether a condition refers to an attribute for which is
// returns true.
func mentions(c Cond, is func(attr string) bool) bool {
	in := func(cs []Cond) bool {
		return slices.ContainsFunc(cs, func(c Cond) bool { return mentions(c, is) })
	}
	switch c := c.(type) {
	case CondExists:
		return is(c.Attr)
	case CondCompare:
		return is(c.Attr)
	case CondIn:
		return is(c.Attr)
	case CondPrefix:
		return is(c.Attr)
	case CondContains:
		return is(c.Attr)
	case CondAll:
		return in(c)
	case CondAny:
		return in(c)
	case CondNot:
		return mentions(c.Cond, is)
	}
	return false
}

// Contains reports whether a sort key is in the range.
func (r Range) Contains(sk string) bool {
	switch r.Kind {
	case RangeAll:
		return true
	case RangeEqual:
		return sk == r.From
	case RangePrefix:
		return strings.HasPrefix(sk, r.From)
	case RangeBetween:
		return sk >= r.From && sk <= r.To
	case RangeAtLeast:
		return sk >= r.From
	case RangeAfter:
		return sk > r.From
	case RangeAtMost:
		return sk <= r.From
	case RangeBefore:
		return sk < r.From
	}
	return false
}

// Empty reports whether the range contains no sort key at all. A query of it
// returns an empty page without a request, because DynamoDB would reject it.
func (r Range) Empty() bool { return r.Kind == RangeBetween && r.From > r.To }
