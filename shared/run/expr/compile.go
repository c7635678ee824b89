package expr

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"

	"millrace/shared/platform/budget"
	"millrace/shared/platform/cache"
)

// programs caches compiled expressions: the same few expressions run for every
// task of every run, and compiling costs a hundred times an evaluation.
var programs = sync.OnceValue(func() *cache.Weighted[string, *Program] {
	return cache.NewWeighted[string, *Program](programBytes)
})

// Memory of compiled expressions.
const (
	programBytes = 32 << 20
	tokenBytes   = 128 // per token of the source
)

// Compile compiles an expression that was registered before, and is therefore
// known to be within its limits. The error is a [*SyntaxError] with one
// sentence for the user. Secrets are rejected: they belong in templates.
func Compile(src string) (*Program, error) { return CompileIn(budget.Unlimited(), src) }

// CompileIn is [Compile] for an expression in a request: it charges its cost to
// b and also returns b's errors.
func CompileIn(b *budget.Budget, src string) (*Program, error) {
	p, err := compile(b, src)
	if err != nil {
		return nil, err
	}
	if len(p.secrets) > 0 {
		return nil, &SyntaxError{Msg: "secrets may be used only inside a task's config, in ${{ … }}"}
	}
	return p, nil
}

func compile(b *budget.Budget, src string) (*Program, error) {
	if err := b.Spend(1 + len(src)/64); err != nil {
		return nil, err
	}
	if p, ok := programs().Get(src); ok {
		return p, nil
	}
	var p *Program
	err := b.Do("compile an expression", func() (err error) {
		p, err = compileNew(b, src)
		return err
	})
	if err != nil {
		if panicked, ok := errors.AsType[*budget.PanicError](err); ok {
			err = &SyntaxError{Msg: "the expression " + panicked.Error()}
		}
		return nil, err
	}
	programs().Add(src, p, len(src)+tokenBytes*tokens(src))
	return p, nil
}

func compileNew(b *budget.Budget, src string) (*Program, error) {
	switch {
	case len(src) > MaxSource:
		return nil, &SyntaxError{Msg: "an expression may have at most 16384 bytes"}
	case strings.TrimSpace(src) == "":
		return nil, &SyntaxError{Msg: "the expression is empty"}
	}
	if err := b.Spend(parseCost * tokens(src)); err != nil {
		return nil, err
	}
	env, err := environment()
	if err != nil {
		return nil, err
	}
	parsed, issues := env.Parse(src)
	if issues.Err() != nil {
		return nil, issueError(src, issues)
	}
	s := measure(parsed.NativeRep())
	if s.err != nil {
		return nil, s.err
	}
	if err := b.Spend(s.cost); err != nil {
		return nil, err
	}
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return nil, issueError(src, issues)
	}
	refs, err := references(checked.NativeRep())
	if err != nil {
		return nil, err
	}
	program, err := env.Program(checked,
		cel.EvalOptions(cel.OptOptimize),
		cel.CustomDecoratorV2(guard),
		cel.InterruptCheckFrequency(100),
	)
	if err != nil {
		return nil, &SyntaxError{Msg: firstSentence(err.Error())}
	}
	return &Program{
		source:  src,
		program: program,
		kind:    checked.OutputType().Kind(),
		tasks:   refs.tasks,
		secrets: refs.secrets,
		item:    refs.item,
		output:  wholeOutput(checked.NativeRep().Expr()),
		failed:  refs.failed,
	}, nil
}

// parseCost is the steps for parsing and planning one token.
const parseCost = 40

// tokens returns an estimate of the number of tokens in a source.
func tokens(src string) int {
	n, word := 0, false
	for i := range len(src) {
		c := src[i]
		switch {
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			word = false
		case isAlnum(c) || c == '_' || c >= 0x80:
			if !word {
				n++
			}
			word = true
		default:
			n++
			word = false
		}
	}
	return n
}

// shape is the cost of type-checking an expression.
type shape struct {
	macros int
	cost   int
	err    error
}

func (s *shape) fail(format string, args ...any) {
	if s.err == nil {
		s.err = &SyntaxError{Msg: fmt.Sprintf(format, args...)}
	}
}
