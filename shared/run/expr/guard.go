package expr

import (
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"

	"millrace/shared/platform/budget"
)

// The library's own cost limit charges for a step after it was executed, counts
// only the outermost length of a list, and searches a stack that grows with
// every iteration. A few short expressions, such as [x, x] nested forty times
// or one replace, could take hours or all memory in a single step, and a plain
// filter of ten thousand rows took 110 ms. The guards count instead: each step
// costs one, a text its length, a result the number of its values; and
// functions with more than linear cost are replaced by bounded ones.

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
		switch s.Function() {
		case overloads.Matches:
			return newMatch(s)
		case operators.Add:
			if len(s.Args()) == 2 {
				return &addition{s}, nil
			}
		}
		if price, ok := prepaid[s.Function()]; ok {
			return newPrepaid(s, price)
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

// must stops the evaluation if err is not nil. The library recovers it as an
// error, and the budget knows the cause.
func must(err error) {
	if err != nil {
		panic(interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded, Message: "stopped"})
	}
}

// budgetOf returns the budget of the evaluation. There is none while a program
// is planned: the constants computed then are no longer than the source.
func budgetOf(frame *interpreter.ExecutionFrame) *budget.Budget {
	v, _ := frame.ResolveName(budgetVar)
	a, ok := v.(*activation)
	if !ok {
		return budget.Unlimited()
	}
	return a.budget
}

func charge(frame *interpreter.ExecutionFrame, n int) { must(budgetOf(frame).Spend(n)) }

func chargeBytes(frame *interpreter.ExecutionFrame, n int) { must(budgetOf(frame).Take(n)) }

func chargeWeight(frame *interpreter.ExecutionFrame, v ref.Val) {
	b := budgetOf(frame)
	must(b.Spend(weigh(v, b.Left())))
}

// Memory of the parts of lists and objects.
const (
	elementBytes = 24
	entryBytes   = 80
)

// chargeBuilt charges for a created value and the memory of its outermost part.
// Inner values were charged when they were created.
func chargeBuilt(frame *interpreter.ExecutionFrame, v ref.Val) {
	b := budgetOf(frame)
	must(b.Spend(weigh(v, b.Left())))
	switch v := v.(type) {
	case types.String:
		must(b.Take(len(v)))
	case types.Bytes:
		must(b.Take(len(v)))
	case traits.Lister:
		must(b.Take(elementBytes * sizeOf(v)))
	case traits.Mapper:
		must(b.Take(entryBytes * sizeOf(v)))
	}
}

func sizeOf(v traits.Sizer) int {
	n, _ := v.Size().(types.Int)
	return int(n)
}

// weighedConstructor charges for the list or object it creates.
type weighedConstructor struct {
	interpreter.InterpretableConstructor
}

func (w *weighedConstructor) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := w.InterpretableConstructor.Exec(frame)
	chargeBuilt(frame, v)
	return v
}

// countedAttribute charges for reading a variable or field, or for choosing a
// branch. Values that later steps may traverse are charged a fraction of that.
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
		n += sizeOf(v) / 64
	}
	charge(frame, n)
	return v
}

// weighedCall charges for a function's result, except the accumulator of a
// comprehension, whose elements were charged when they were created.
type weighedCall struct{ interpreter.InterpretableCall }

func (w *weighedCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := w.InterpretableCall.Exec(frame)
	switch v.(type) {
	case traits.MutableLister, traits.MutableMapper:
		charge(frame, 1)
	default:
		chargeBuilt(frame, v)
	}
	return v
}

// addition implements a + b. Texts and lists are charged before they are
// concatenated. The accumulator of a comprehension costs one, because its
// elements were charged when they were created.
type addition struct{ interpreter.InterpretableCall }

func (a *addition) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	left := a.Args()[0].Exec(frame)
	if types.IsUnknownOrError(left) {
		return left
	}
	right := a.Args()[1].Exec(frame)
	if types.IsUnknownOrError(right) {
		return right
	}
	switch l := left.(type) {
	case types.String:
		if r, ok := right.(types.String); ok {
			chargeText(frame, len(l)+len(r))
			return l + r
		}
	case traits.MutableLister, traits.MutableMapper:
		charge(frame, 1)
		chargeBytes(frame, elementBytes)
	case traits.Lister:
		if r, ok := right.(traits.Lister); ok {
			return joined(frame, l, r)
		}
	default:
		charge(frame, 1)
	}
	adder, ok := left.(traits.Adder)
	if !ok {
		return types.NewErrWithNodeID(a.ID(), "no such overload: %s", a.Function())
	}
	v := adder.Add(right)
	if b, ok := v.(types.Bytes); ok {
		chargeBuilt(frame, b)
	}
	return types.LabelErrNode(a.ID(), v)
}

// joined copies two lists into one. The library's sum is a view of two lists,
// and nested views are slow to read.
func joined(frame *interpreter.ExecutionFrame, lists ...traits.Lister) ref.Val {
	n := 0
	for _, l := range lists {
		n += sizeOf(l)
	}
	charge(frame, n)
	chargeBytes(frame, elementBytes*n)
	out := make([]ref.Val, 0, n)
	for _, l := range lists {
		for it := l.Iterator(); it.HasNext() == types.True; {
			out = append(out, it.Next())
		}
	}
	v := types.NewRefValList(adapter{}, out)
	chargeWeight(frame, v)
	return v
}

// boundedCall calls a function of this package instead of the library's.
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

// The library evaluates some steps, such as the branches of ?:, by Eval, so
// each guard must implement it, or the wrapped step would run unguarded.

// Eval implements interpreter.Interpretable.
func (c *countedAttribute) Eval(a interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(a, c.Exec)
}

// Eval implements interpreter.Interpretable.
func (w *weighedCall) Eval(a interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(a, w.Exec)
}

// Eval implements interpreter.Interpretable.
func (a *addition) Eval(act interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(act, a.Exec)
}

// Eval implements interpreter.Interpretable.
func (b *boundedCall) Eval(a interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(a, b.Exec)
}

// Eval implements interpreter.Interpretable.
func (w *weighedConstructor) Eval(a interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(a, w.Exec)
}
