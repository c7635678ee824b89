package expr

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// match is text.matches(pattern), charged by the length of the text and the size
// of the compiled pattern. It is not a call to the library's eyes, which would
// otherwise put its own unguarded one in the place of a constant pattern.
type match struct {
	id            int64
	text, pattern interpreter.InterpretableV2
	constant      *machine // when the pattern is
}

// machine is a compiled pattern and its number of instructions.
type machine struct {
	*regexp.Regexp
	size int
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
			if m.constant, err = compilePattern(string(s)); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

func compilePattern(s string) (*machine, error) {
	if len(s) > maxRegex {
		return nil, fmt.Errorf("a regular expression may have at most %d bytes", maxRegex)
	}
	tree, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(s)
	if err != nil {
		return nil, err
	}
	return &machine{re, len(prog.Inst)}, nil
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
		charge(frame, 50+len(source)) // to compile it
		var err error
		if re, err = compilePattern(string(source)); err != nil {
			return types.WrapErr(err)
		}
		charge(frame, re.size)
	}
	charge(frame, 1+len(s)*re.size/8) // some 30 ns for each byte and instruction
	return types.Bool(re.MatchString(string(s)))
}

// Eval implements interpreter.Interpretable.
func (m *match) Eval(a interpreter.Activation) ref.Val {
	return m.Exec(interpreter.AsFrame(a))
}
