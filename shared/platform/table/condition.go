package table

// Cond is a condition on an item, evaluated by the store. Attributes are
// top-level names. A comparison with an absent attribute, or with one of
// another kind, is false.
type Cond interface{ cond() }

// Op is a comparison operator.
type Op int

// The comparison operators.
const (
	OpEq Op = iota
	OpNe
	OpLt
	OpLe
	OpGt
	OpGe
)

// The forms of conditions, built by the functions below and read by drivers.
type (
	// CondExists holds if the attribute is present (or absent with Not).
	CondExists struct {
		Attr string
		Not  bool
	}
	// CondCompare compares an attribute with a value.
	CondCompare struct {
		Attr  string
		Op    Op
		Value Value
	}
	// CondIn holds if the attribute equals one of up to 100 values.
	CondIn struct {
		Attr   string
		Values []Value
	}
	// CondPrefix holds if the string attribute begins with Prefix.
	CondPrefix struct{ Attr, Prefix string }
	// CondContains holds if the set or list contains the value, or the string the substring.
	CondContains struct {
		Attr  string
		Value Value
	}
	// CondAll holds if all of its conditions hold.
	CondAll []Cond
	// CondAny holds if at least one of its conditions holds.
	CondAny []Cond
	// CondNot holds if its condition does not hold.
	CondNot struct{ Cond Cond }
)

func (CondExists) cond()   {}
func (CondCompare) cond()  {}
func (CondIn) cond()       {}
func (CondPrefix) cond()   {}
func (CondContains) cond() {}
func (CondAll) cond()      {}
func (CondAny) cond()      {}
func (CondNot) cond()      {}

// Exists holds if the attribute is present.
func Exists(attr string) Cond { return CondExists{Attr: attr} }

// Absent holds if the attribute, or the item, does not exist.
func Absent(attr string) Cond { return CondExists{Attr: attr, Not: true} }

// IsNew holds if no item has the key.
func IsNew() Cond { return Absent("pk") }

// IsStored holds if an item has the key.
func IsStored() Cond { return Exists("pk") }

// Eq holds if the attribute equals v, of any type that [V] accepts.
func Eq(attr string, v any) Cond { return CondCompare{attr, OpEq, V(v)} }

// Ne holds if the attribute differs, or is absent.
func Ne(attr string, v any) Cond { return CondCompare{attr, OpNe, V(v)} }

// Lt holds if the attribute is less.
func Lt(attr string, v any) Cond { return CondCompare{attr, OpLt, V(v)} }

// Le holds if the attribute is less or equal.
func Le(attr string, v any) Cond { return CondCompare{attr, OpLe, V(v)} }

// Gt holds if the attribute is greater.
func Gt(attr string, v any) Cond { return CondCompare{attr, OpGt, V(v)} }

// Ge holds if the attribute is greater or equal.
func Ge(attr string, v any) Cond { return CondCompare{attr, OpGe, V(v)} }

// In holds if the attribute equals one of the values.
func In[T any](attr string, vs ...T) Cond {
	c := CondIn{Attr: attr, Values: make([]Value, len(vs))}
	for i, v := range vs {
		c.Values[i] = V(v)
	}
	return c
}

// HasPrefix holds if the string attribute begins with prefix.
func HasPrefix(attr, prefix string) Cond { return CondPrefix{attr, prefix} }

// Contains holds if the set or list has the member v, or the string the
// substring.
func Contains(attr string, v any) Cond { return CondContains{attr, V(v)} }

// And holds if all of cs hold. Nil members are ignored.
func And(cs ...Cond) Cond { return CondAll(present(cs)) }

// Or holds if at least one of cs holds. Nil members are ignored.
func Or(cs ...Cond) Cond { return CondAny(present(cs)) }

// Not negates a condition.
func Not(c Cond) Cond { return CondNot{c} }

func present(cs []Cond) []Cond {
	out := make([]Cond, 0, len(cs))
	for _, c := range cs {
		if c != nil {
			out = append(out, c)
		}
	}
	return out
}

// Action is one change of an Update. An attribute may be in only one action.
type Action interface{ action() }

// The forms of actions, built by the functions below and read by drivers.
type (
	// ActSet sets an attribute; with IfAbsent only if it does not exist.
	ActSet struct {
		Attr     string
		Value    Value
		IfAbsent bool
	}
	// ActRemove removes an attribute.
	ActRemove struct{ Attr string }
	// ActAdd adds to a number (absent counts as 0) or adds members to a set.
	ActAdd struct {
		Attr  string
		Value Value
	}
	// ActDrop removes members from a set. An emptied set is removed.
	ActDrop struct {
		Attr  string
		Value Value
	}
	// ActAppend appends to a list. An absent list counts as empty.
	ActAppend struct {
		Attr  string
		Value Value // a list
	}
)

func (ActSet) action()    {}
func (ActRemove) action() {}
func (ActAdd) action()    {}
func (ActDrop) action()   {}
func (ActAppend) action() {}

// Set sets an attribute.
func Set(attr string, v any) Action { return ActSet{Attr: attr, Value: V(v)} }

// SetIfAbsent sets an attribute unless it exists.
func SetIfAbsent(attr string, v any) Action {
	return ActSet{Attr: attr, Value: V(v), IfAbsent: true}
}

// Remove removes an attribute.
func Remove(attr string) Action { return ActRemove{attr} }

// Add adds n to a number attribute; an absent one counts as 0.
func Add(attr string, n int64) Action { return ActAdd{attr, V(n)} }

// AddToSet adds members, a non-empty slice of numbers or strings, to a set
// attribute. It is idempotent.
func AddToSet[T ~int | ~int64 | ~string](attr string, members ...T) Action {
	return ActAdd{attr, SetOf(members...)}
}

// DropFromSet removes members from a set attribute.
func DropFromSet[T ~int | ~int64 | ~string](attr string, members ...T) Action {
	return ActDrop{attr, SetOf(members...)}
}

// Append appends to a list attribute. An absent one counts as empty.
func Append(attr string, vs ...any) Action {
	l := make([]Value, len(vs))
	for i, v := range vs {
		l[i] = V(v)
	}
	return ActAppend{attr, List(l...)}
}

// Range bounds the sort key of a query. The zero Range contains every key.
type Range struct {
	Kind RangeKind
	From string
	To   string // RangeBetween only
}

// RangeKind is the form of a Range.
type RangeKind int

// The kinds of a Range.
const (
	RangeAll RangeKind = iota
	RangeEqual
	RangePrefix
	RangeBetween // both ends included
	RangeAtLeast
	RangeAfter
	RangeAtMost
	RangeBefore
)

// Prefix returns the range of sort keys that begin with p; an empty p means
// all.
func Prefix(p string) Range {
	if p == "" {
		return Range{}
	}
	return Range{Kind: RangePrefix, From: p}
}

// Between returns the range from a to b, both included.
func Between(a, b string) Range { return Range{Kind: RangeBetween, From: a, To: b} }

// AtLeast returns the range from a on, a included.
func AtLeast(a string) Range { return Range{Kind: RangeAtLeast, From: a} }

// After returns the range from a on, a excluded.
func After(a string) Range { return Range{Kind: RangeAfter, From: a} }

// AtMost returns the range up to a, a included.
func AtMost(a string) Range { return Range{Kind: RangeAtMost, From: a} }

// Before returns the range up to a, a excluded.
func Before(a string) Range { return Range{Kind: RangeBefore, From: a} }
