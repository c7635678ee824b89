package expr

import (
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"millrace/shared/platform/regex"
)

// match is text.matches(pattern), charged by the length of the text and the size
// of the compiled pattern. It is not a call to the library's eyes, which would
// otherwise put its own unguarded one in the place of a constant pattern.
type match struct {
	id            int64
	text, pattern interpreter.InterpretableV2
	constant      *regex.Regexp // when the pattern is
}

func newMatch(call interpreter.InterpretableCall) (interpreter.InterpretableV2, error) {
	args := call.Args()
	if len(args) != 2 {
		return call, nil
	}
	m := &match{id: call.ID(), text: args[0], pattern: args[1]}
	if c, ok := args[1].(interpreter.InterpretableConst); ok {
		if s, ok := c.Value().(types.String); ok {
			var err error
			if m.constant, err = regex.Compile(string(s)); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

// ID implements interpreter.Interpretable.
func (m *match) ID() int64 { return m.id }

// Exec implements interpreter.InterpretableV2.
func (m *match) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	text := m.text.Exec(frame)
	if types.IsUnknownOrError(text) {
		return text
	}
	s, ok := text.(types.String)
	if !ok {
		return types.NewErrWithNodeID(m.id, "no such overload: matches")
	}
	re := m.constant
	if re == nil {
		p := m.pattern.Exec(frame)
		if types.IsUnknownOrError(p) {
			return p
		}
		source, ok := p.(types.String)
		if !ok {
			return types.NewErrWithNodeID(m.id, "no such overload: matches")
		}
		charge(frame, regex.CompileCost(len(source)))
		var err error
		if re, err = regex.Compile(string(source)); err != nil {
			return types.WrapErr(err)
		}
	}
	charge(frame, re.Cost(len(s)))
	return types.Bool(re.MatchString(string(s)))
}

// Eval implements interpreter.Interpretable.
func (m *match) Eval(a interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(a, m.Exec)
}
