package expr

import (
	"reflect"

	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// The library's own cost limit charges for a step after it is done, counts a
// list by its outermost length, and searches a stack that grows with every
// iteration. A few short expressions, [x, x] nested forty times or one replace,
// would take hours or all memory in a single step, and a plain filter of ten
// thousand rows took 110 ms. The guards count instead: each step costs one, a
// text its length, what is built the number of values it stands for; and the
// functions whose work is not linear are replaced by bounded ones.

// guard decorates the steps of a program.
func guard(step interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	switch s := step.(type) {
	case *countedAttribute:
		return s, nil
	case interpreter.InterpretableAttribute:
		return &countedAttribute{s}, nil
	case interpreter.InterpretableConstructor:
		if constant(s.InitVals()) {
			return step, nil
		}
		return &weighedConstructor{s}, nil
	case interpreter.InterpretableCall:
		if f, ok := bounded[s.Function()]; ok {
			return &boundedCall{s, f}, nil
		}
		if s.Function() == overloads.Matches {
			return newMatch(s)
		}
		return &weighedCall{s}, nil
	}
	return step, nil
}

func constant(steps []interpreter.InterpretableV2) bool {
	for _, s := range steps {
		if _, ok := s.(interpreter.InterpretableConst); !ok {
			return false
		}
	}
	return true
}

// exceeded stops the evaluation; the library recovers it as an error.
func exceeded() {
	panic(interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded, Message: "too much work"})
}

func charge(frame *interpreter.ExecutionFrame, n int) {
	v, _ := frame.ResolveName(budgetVar)
	a, ok := v.(*activation)
	if !ok {
		return
	}
	if a.left -= n; a.left < 0 {
		exceeded()
	}
}

func chargeWeight(frame *interpreter.ExecutionFrame, vals ...ref.Val) {
	v, _ := frame.ResolveName(budgetVar)
	a, ok := v.(*activation)
	if !ok {
		return
	}
	for _, val := range vals {
		if a.left -= weigh(val, a.left); a.left < 0 {
			exceeded()
		}
	}
}

// weighedConstructor charges for the list or object it makes.
type weighedConstructor struct {
	interpreter.InterpretableConstructor
}

func (w *weighedConstructor) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := w.InterpretableConstructor.Exec(frame)
	chargeWeight(frame, v)
	return v
}

// countedAttribute charges for looking up a variable or field, or for choosing
// a branch. A value that later steps may go through whole costs a part of that.
type countedAttribute struct {
	interpreter.InterpretableAttribute
}

func (c *countedAttribute) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := c.InterpretableAttribute.Exec(frame)
	n := 1
	switch v := v.(type) {
	case types.String:
		n += len(v) / 64
	case traits.MutableLister:
	case traits.Lister:
		n += int(v.Size().(types.Int)) / 64
	}
	charge(frame, n)
	return v
}

// weighedCall charges for what a function returns, except the accumulator of a
// comprehension, whose elements were charged when they were made.
type weighedCall struct{ interpreter.InterpretableCall }

func (w *weighedCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := w.InterpretableCall.Exec(frame)
	switch l := v.(type) {
	case traits.MutableLister, traits.MutableMapper:
		charge(frame, 1)
	case traits.Lister:
		if reflect.TypeOf(l) == concatType() {
			v = flat(frame, l)
		}
		chargeWeight(frame, v)
	default:
		chargeWeight(frame, v)
	}
	return v
}

// flat copies a concatenation: the library's is a view over two lists, slower to
// read with each view over views.
func flat(frame *interpreter.ExecutionFrame, l traits.Lister) ref.Val {
	n := int(l.Size().(types.Int))
	charge(frame, n)
	out := make([]ref.Val, 0, n)
	for it := l.Iterator(); it.HasNext() == types.True; {
		out = append(out, it.Next())
	}
	return types.NewRefValList(adapter{}, out)
}

// boundedCall runs a function of this package in place of the library's.
type boundedCall struct {
	interpreter.InterpretableCall
	f func(frame *interpreter.ExecutionFrame, args []ref.Val) (ref.Val, bool)
}

func (b *boundedCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	steps := b.Args()
	args := make([]ref.Val, len(steps))
	for i, s := range steps {
		v := s.Exec(frame)
		if types.IsUnknownOrError(v) {
			return v
		}
		args[i] = v
	}
	v, ok := b.f(frame, args)
	if !ok {
		return types.NewErrWithNodeID(b.ID(), "no such overload: %s", b.Function())
	}
	return v
}

// The library reaches some steps, the branches of a ?: among them, by Eval: each
// guard must answer there too, or the step it wraps would run unguarded.

// Eval implements interpreter.Interpretable.
func (c *countedAttribute) Eval(a interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(a))
}

// Eval implements interpreter.Interpretable.
func (w *weighedCall) Eval(a interpreter.Activation) ref.Val {
	return w.Exec(interpreter.AsFrame(a))
}

// Eval implements interpreter.Interpretable.
func (b *boundedCall) Eval(a interpreter.Activation) ref.Val {
	return b.Exec(interpreter.AsFrame(a))
}

// Eval implements interpreter.Interpretable.
func (w *weighedConstructor) Eval(a interpreter.Activation) ref.Val {
	return w.Exec(interpreter.AsFrame(a))
}
