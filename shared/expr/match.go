package expr

import (
	"fmt"
	"regexp"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// match is text.matches(pattern), charged by the length of both.
type match struct {
	interpreter.InterpretableCall
	pattern *regexp.Regexp // when it is constant
}

func newMatch(call interpreter.InterpretableCall) (interpreter.InterpretableV2, error) {
	m := &match{InterpretableCall: call}
	if len(call.Args()) != 2 {
		return call, nil
	}
	if c, ok := call.Args()[1].(interpreter.InterpretableConst); ok {
		if s, ok := c.Value().(types.String); ok {
			re, err := pattern(string(s))
			if err != nil {
				return nil, err
			}
			m.pattern = re
		}
	}
	return m, nil
}

func pattern(s string) (*regexp.Regexp, error) {
	if len(s) > maxRegex {
		return nil, fmt.Errorf("a regular expression may have at most %d bytes", maxRegex)
	}
	return regexp.Compile(s)
}

func (m *match) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	text := m.Args()[0].Exec(frame)
	if types.IsUnknownOrError(text) {
		return text
	}
	s, ok := text.(types.String)
	if !ok {
		return types.NewErrWithNodeID(m.ID(), "no such overload: matches")
	}
	re := m.pattern
	if re == nil {
		p := m.Args()[1].Exec(frame)
		if types.IsUnknownOrError(p) {
			return p
		}
		source, ok := p.(types.String)
		if !ok {
			return types.NewErrWithNodeID(m.ID(), "no such overload: matches")
		}
		charge(frame, 50+len(source)) // to compile it
		var err error
		if re, err = pattern(string(source)); err != nil {
			return types.WrapErr(err)
		}
	}
	charge(frame, 1+len(s)/2*(1+len(re.String())/32)) // up to 250 ns a byte
	return types.Bool(re.MatchString(string(s)))
}

// Eval implements interpreter.Interpretable.
func (m *match) Eval(a interpreter.Activation) ref.Val {
	return m.Exec(interpreter.AsFrame(a))
}
