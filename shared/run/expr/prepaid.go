package expr

import (
	"math/bits"
	"sync"

	"cel.dev/cel-go/common/functions"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// prepaid are library functions that cost more than their result shows. They
// are charged by their arguments before they are called.
var prepaid = map[string]func(*interpreter.ExecutionFrame, []ref.Val){
	"format":                      priceFormat,
	"math.@max":                   priceList,
	"math.@min":                   priceList,
	"sort":                        priceSort,
	"@sortByAssociatedKeys":       priceSort,
	"flatten":                     priceList,
	"lowerAscii":                  priceText,
	"upperAscii":                  priceText,
	"reverse":                     priceText,
	"strings.quote":               priceText,
	overloads.TimeGetFullYear:     priceZone,
	overloads.TimeGetMonth:        priceZone,
	overloads.TimeGetDayOfYear:    priceZone,
	overloads.TimeGetDayOfMonth:   priceZone,
	overloads.TimeGetDate:         priceZone,
	overloads.TimeGetDayOfWeek:    priceZone,
	overloads.TimeGetHours:        priceZone,
	overloads.TimeGetMinutes:      priceZone,
	overloads.TimeGetSeconds:      priceZone,
	overloads.TimeGetMilliseconds: priceZone,
}

// priceFormat charges for the text that formatting the arguments creates.
func priceFormat(frame *interpreter.ExecutionFrame, args []ref.Val) {
	b := budgetOf(frame)
	n := 0
	for _, a := range args {
		n += weigh(a, b.Left())
		must(b.Spend(weigh(a, b.Left())))
	}
	must(b.Take(64 * n))
}

// priceList charges for traversing lists.
func priceList(frame *interpreter.ExecutionFrame, args []ref.Val) {
	n := 1
	for _, a := range args {
		if l, ok := a.(traits.Lister); ok {
			n += sizeOf(l)
		}
	}
	charge(frame, n)
}

// priceText charges for functions that split a text, four bytes for each
// character, or traverse it several times.
func priceText(frame *interpreter.ExecutionFrame, args []ref.Val) {
	if s, ok := args[0].(types.String); ok {
		charge(frame, len(s)/32)
	}
}

// priceSort charges for comparing the keys, which are the last argument.
func priceSort(frame *interpreter.ExecutionFrame, args []ref.Val) {
	priceList(frame, args)
	if l, ok := args[len(args)-1].(traits.Lister); ok {
		n := sizeOf(l)
		charge(frame, n*bits.Len(uint(n)))
		chargeWeight(frame, l) // comparing texts with a long common prefix reads all of it
	}
}

// priceZone charges for loading a time zone's rules.
func priceZone(frame *interpreter.ExecutionFrame, args []ref.Val) {
	if len(args) > 1 {
		charge(frame, 200)
	}
	charge(frame, 1)
}

// implementations returns the library's functions by overload.
var implementations = sync.OnceValues(func() (map[string]*functions.Overload, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	declared := env.Functions()
	out := map[string]*functions.Overload{}
	for name := range prepaid {
		bindings, err := declared[name].Bindings()
		if err != nil {
			return nil, err
		}
		for _, b := range bindings {
			out[b.Operator] = b
		}
	}
	return out, nil
})

// prepaidCall charges before it calls a library function.
type prepaidCall struct {
	interpreter.InterpretableCall
	price func(*interpreter.ExecutionFrame, []ref.Val)
	call  *functions.Overload
}

func newPrepaid(s interpreter.InterpretableCall, price func(*interpreter.ExecutionFrame, []ref.Val)) (interpreter.InterpretableV2, error) {
	known, err := implementations()
	if err != nil {
		return nil, err
	}
	call := known[s.OverloadID()]
	if call == nil {
		call = known[s.Function()] // chosen by the arguments
	}
	if call == nil {
		return &weighedCall{s}, nil
	}
	return &prepaidCall{s, price, call}, nil
}

func (p *prepaidCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	steps := p.Args()
	args := make([]ref.Val, len(steps))
	for i, s := range steps {
		if args[i] = s.Exec(frame); types.IsUnknownOrError(args[i]) {
			return args[i]
		}
	}
	p.price(frame, args)
	var v ref.Val
	switch {
	case len(args) == 1 && p.call.Unary != nil:
		v = p.call.Unary(args[0])
	case len(args) == 2 && p.call.Binary != nil:
		v = p.call.Binary(args[0], args[1])
	case p.call.Function != nil:
		v = p.call.Function(args...)
	default:
		return types.NewErrWithNodeID(p.ID(), "no such overload: %s", p.Function())
	}
	chargeBuilt(frame, v)
	return types.LabelErrNode(p.ID(), v)
}

// Eval implements interpreter.Interpretable.
func (p *prepaidCall) Eval(a interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(a, p.Exec)
}
