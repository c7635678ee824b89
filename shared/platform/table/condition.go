package table

// Cond is a condition on an item, evaluated where the item is stored.
// Attributes are top-level names. A comparison with an absent attribute, or
// with one of another kind, does not hold.
type Cond interface{ cond() }

// Op is a comparison.
type Op int

// The comparisons.
const (
	OpEq Op = iota
	OpNe
	OpLt
	OpLe
	OpGt
	OpGe
)

// The conditions' forms; built by the functions below, read by drivers.
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
	// CondAll holds if each of its conditions does.
	CondAll []Cond
	// CondAny holds if one of its conditions does.
	CondAny []Cond
	// CondNot holds if its condition does not.
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

// Absent holds if the attribute, or the item, is not there.
func Absent(attr string) Cond { return CondExists{Attr: attr, Not: true} }

// IsNew holds if no item has the key.
func IsNew() Cond { return Absent("pk") }

// IsStored holds if an item has the key.
func IsStored() Cond { return Exists("pk") }

// Eq compares for equality; v is anything [V] takes.
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

// HasPrefix holds if the string attribute begins so.
func HasPrefix(attr, prefix string) Cond { return CondPrefix{attr, prefix} }

// Contains holds if the set or list has the member, or the string the part.
func Contains(attr string, v any) Cond { return CondContains{attr, V(v)} }

// And holds if all do; nil members are left out.
func And(cs ...Cond) Cond { return CondAll(present(cs)) }

// Or holds if any does; nil members are left out.
func Or(cs ...Cond) Cond { return CondAny(present(cs)) }

// Not turns a condition round.
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

// Action is one change of an Update. An attribute takes part in one action only.
type Action interface{ action() }

// The actions' forms; built by the functions below, read by drivers.
type (
	// ActSet sets an attribute; with IfAbsent it leaves one that is there.
	ActSet struct {
		Attr     string
		Value    Value
		IfAbsent bool
	}
	// ActRemove removes an attribute.
	ActRemove struct{ Attr string }
	// ActAdd adds to a number (absent counts as 0) or unites a set.
	ActAdd struct {
		Attr  string
		Value Value
	}
	// ActDrop takes members out of a set; an emptied set is removed.
	ActDrop struct {
		Attr  string
		Value Value
	}
	// ActAppend appends to a list; an absent one is begun.
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

// SetIfAbsent sets an attribute unless it is there.
func SetIfAbsent(attr string, v any) Action {
	return ActSet{Attr: attr, Value: V(v), IfAbsent: true}
}

// Remove removes an attribute.
func Remove(attr string) Action { return ActRemove{attr} }

// Add adds n to a number attribute; an absent one counts as 0.
func Add(attr string, n int64) Action { return ActAdd{attr, V(n)} }

// AddToSet unites a set attribute with members, a non-empty slice of numbers
// or strings. Idempotent.
func AddToSet[T ~int | ~int64 | ~string](attr string, members ...T) Action {
	return ActAdd{attr, SetOf(members...)}
}

// DropFromSet takes members out of a set attribute.
func DropFromSet[T ~int | ~int64 | ~string](attr string, members ...T) Action {
	return ActDrop{attr, SetOf(members...)}
}

// Append appends to a list attribute; an absent one is begun.
func Append(attr string, vs ...any) Action {
	l := make([]Value, len(vs))
	for i, v := range vs {
		l[i] = V(v)
	}
	return ActAppend{attr, List(l...)}
}

// Range bounds the sort key of a query. The zero Range is all.
type Range struct {
	Kind RangeKind
	From string
	To   string // RangeBetween only
}

// RangeKind is the form of a Range.
type RangeKind int

// The forms of a Range.
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

// Prefix is the range of sort keys that begin with p; an empty p is all.
func Prefix(p string) Range {
	if p == "" {
		return Range{}
	}
	return Range{Kind: RangePrefix, From: p}
}

// Between is the range from a to b, both included.
func Between(a, b string) Range { return Range{Kind: RangeBetween, From: a, To: b} }

// AtLeast is the range from a on, a included.
func AtLeast(a string) Range { return Range{Kind: RangeAtLeast, From: a} }

// After is the range from a on, a excluded.
func After(a string) Range { return Range{Kind: RangeAfter, From: a} }

// AtMost is the range up to a, a included.
func AtMost(a string) Range { return Range{Kind: RangeAtMost, From: a} }

// Before is the range up to a, a excluded.
func Before(a string) Range { return Range{Kind: RangeBefore, From: a} }
