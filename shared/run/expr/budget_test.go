package expr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/budget"
)

// little is a tenth of an evaluation's budget.
var little = budget.Limits{Steps: maxSteps / 10, Bytes: maxBytes / 16}

// steps evaluates an expression with the budget little and returns the steps it
// took.
func steps(t testing.TB, src string, s Scope) (int64, error) {
	p, err := Compile(src)
	require.NoError(t, err, src)
	b, end := budget.New(t.Context(), little)
	defer end()
	_, err = p.eval(t.Context(), b, s, nil)
	return b.Used().Steps, err
}

func text(n int) Scope {
	return Scope{Params: map[string]any{"big": strings.Repeat("a", n), "t": "2026-01-02T00:00:00Z"}}
}

// Text functions take steps in proportion to the text, so that a few calls on
// large texts are cheap, and many are stopped.
func TestTextFunctionsAreLinear(t *testing.T) {
	t.Parallel()
	for _, src := range []string{
		`params.big.indexOf(params.big.substring(size(params.big) / 2) + "y")`,
		`params.big.lastIndexOf("y" + params.big.substring(size(params.big) / 2))`,
		`params.big.charAt(size(params.big) - 1)`,
		`params.big.split("a")`,
		`params.big.split("")`,
		`params.big.replace("a", "bb")`,
		`params.big.matches("^(a|b)*c")`,
		`params.big.lowerAscii()`,
		`"%s%s".format([params.big, params.big])`,
		`params.big + params.big`,
	} {
		small, err := steps(t, src, text(10_000))
		require.NoError(t, err, src)
		large, err := steps(t, src, text(80_000))
		require.NoError(t, err, src)
		assert.Greater(t, large, int64(80_000/64), src)
		assert.LessOrEqual(t, large, 9*small, src)
		_, err = steps(t, fmt.Sprintf(`lists.range(50000).all(i, [%s] != [])`, src), text(80_000))
		assert.Error(t, err, "fifty thousand of them: %s", src)
	}
}

func TestMemoryOfResultsIsBounded(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		`lists.range(100).map(i, params.big + string(i))`:                              "builds too much; at most 8388608 bytes",
		`lists.range(20).map(i, params.big.split(""))`:                                 "builds too much",
		`lists.range(100000).map(i, timestamp(params.t).getHours("Europe/Berlin"))`:    "too much work",
		`lists.range(100000).map(i, "a".matches("((x?){20}){20}" + string(i)))`:        "too much work",
		`cel.bind(l, lists.range(100000), lists.range(1000).map(i, math.greatest(l)))`: "too much work",
		`cel.bind(l, lists.range(100000), lists.range(1000).map(i, l.sort()))`:         "too much work",
		`"a".matches(params.big)`:                                  "at most 1000 bytes",
		`"a".matches("((x?){30}){30}" + params.t.substring(0, 1))`: "more than 2000 instructions",
		`{bytes(params.t): 1}`:                                     "an object's key must be a string, a number or a boolean",
		`lists.range(10).map(i, lists.range(100000).map(j, params.big)).map(x, x.join(""))`: "too much work",
	} {
		_, err := steps(t, src, text(200_000))
		var bad *EvalError
		require.ErrorAs(t, err, &bad, src)
		assert.Contains(t, bad.Msg, want, src)
	}
}

// The expressions of one template share a budget.
func TestTemplateHasOneBudget(t *testing.T) {
	t.Parallel()
	one := `"${{ lists.range(100000).all(i, i >= 0) }}"`
	render := func(n int) error {
		tpl, err := CompileTemplate(json.RawMessage("[" + one + strings.Repeat(","+one, n-1) + "]"))
		require.NoError(t, err)
		_, err = tpl.Render(t.Context(), Scope{}, nil)
		return err
	}
	require.NoError(t, render(2))
	assert.ErrorContains(t, render(30), "the expression does too much work")
}

func TestEverydayPatternsWork(t *testing.T) {
	t.Parallel()
	s := Scope{Params: map[string]any{"d": "2026-01-02", "p": "[0-9]{4}"}}
	for _, src := range []string{
		`params.d.matches("^[0-9]{4}-[0-9]{2}-[0-9]{2}$")`,
		`params.d.matches("[0-9]{4}")`,
		`params.d.matches("^" + params.p)`,
		`matches(params.d, r"\d{2,}-(\d|x)+")`,
	} {
		p, err := Compile(src)
		require.NoError(t, err, src)
		ok, err := p.EvalBool(t.Context(), s)
		require.NoError(t, err, src)
		assert.True(t, ok, src)
	}
}

func TestCostlyExpressionsAreRejected(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		`{b"a": 1}`:                     "an object's key must be a string, a number or a boolean, not bytes",
		`{dyn(b"a"): 1}`:                "the expression cannot be processed",
		`"a".matches("((x?){30}){30}")`: "invalid matches argument: it compiles to more than 2000 instructions",
		`"a".matches("` + strings.Repeat("(x?){1000}", 90) + `")`:                          "more than 2000 instructions",
		`"a".matches("` + strings.Repeat("a", 1001) + `")`:                                 "at most 1000 bytes",
		strings.Repeat("[", 120) + strings.Repeat("]", 120):                                "nested too deep",
		strings.Repeat(`{"a": `, 120) + "1" + strings.Repeat("}", 120):                     "nested too deep",
		"[" + strings.Repeat(strings.Repeat("[", 60)+strings.Repeat("]", 60)+",", 9) + "]": "nested too deep",
	} {
		_, err := Compile(src)
		var bad *SyntaxError
		require.ErrorAs(t, err, &bad, src)
		assert.Contains(t, err.Error(), want)
	}
}

// All expressions of a request are compiled within its budget.
func TestCompilingIsCharged(t *testing.T) {
	t.Parallel()
	b, end := budget.New(t.Context(), budget.Limits{Steps: 1_000_000, Bytes: 1})
	defer end()
	var err error
	compiled := 0
	for ; err == nil; compiled++ {
		src := fmt.Sprint(t.Name()[:4]+"_"+"x", compiled)
		_, err = CompileIn(b, fmt.Sprintf(`%q == params.a`, src)+nestedMacros(24))
	}
	_, exceeded := errors.AsType[*budget.Exceeded](err)
	assert.True(t, exceeded, err)
	assert.Less(t, compiled, 20)
	assert.Greater(t, compiled, 2)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b, end = budget.New(ctx, budget.Limits{Steps: 1_000_000, Bytes: 1})
	defer end()
	_, err = CompileIn(b, `1 + 1`)
	assert.ErrorIs(t, err, context.Canceled)
}

func nestedMacros(n int) string {
	s := "1"
	for i := range n {
		s = fmt.Sprintf("[1].map(x%d, %s)", i, s)
	}
	return " || [] == dyn(" + s + ")"
}

// Positions in a text are the same as the library's.
func FuzzText(f *testing.F) {
	f.Add("größe größe", "ß", 3, 7)
	f.Add("", "", 0, 0)
	f.Add("aaa", "aa", -1, 2)
	f.Add("日本語日本", "日本", 3, 9)
	env, err := environment()
	require.NoError(f, err)
	library := map[string]func(...ref.Val) ref.Val{}
	for _, name := range []string{"indexOf", "lastIndexOf", "charAt", "substring", "split"} {
		bindings, err := env.Functions()[name].Bindings()
		require.NoError(f, err)
		for _, o := range bindings {
			library[o.Operator] = func(args ...ref.Val) ref.Val {
				switch {
				case len(args) == 2 && o.Binary != nil:
					return o.Binary(args[0], args[1])
				default:
					return o.Function(args...)
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, s, sub string, from, to int) {
		s, sub = strings.ToValidUTF8(s, "?"), strings.ToValidUTF8(sub, "?")
		scope := Scope{Params: map[string]any{"s": s, "sub": sub, "from": int64(from), "to": int64(to)}}
		S, Sub, From, To := types.String(s), types.String(sub), types.Int(from), types.Int(to)
		for src, want := range map[string]ref.Val{
			`string(params.s).indexOf(string(params.sub))`:                       library["string_index_of_string"](S, Sub),
			`string(params.s).indexOf(string(params.sub), int(params.from))`:     library["string_index_of_string_int"](S, Sub, From),
			`string(params.s).lastIndexOf(string(params.sub))`:                   library["string_last_index_of_string"](S, Sub),
			`string(params.s).lastIndexOf(string(params.sub), int(params.from))`: library["string_last_index_of_string_int"](S, Sub, From),
			`string(params.s).charAt(int(params.from))`:                          library["string_char_at_int"](S, From),
			`string(params.s).substring(int(params.from))`:                       library["string_substring_int"](S, From),
			`string(params.s).substring(int(params.from), int(params.to))`:       library["string_substring_int_int"](S, From, To),
			`string(params.s).split(string(params.sub))`:                         library["string_split_string"](S, Sub),
			`string(params.s).split(string(params.sub), int(params.to))`:         library["string_split_string_int"](S, Sub, To),
		} {
			p, err := Compile(src)
			require.NoError(t, err)
			got, err := p.Eval(t.Context(), scope)
			if bad, failed := want.(*types.Err); failed {
				require.Error(t, err, src)
				assert.EqualError(t, err, bad.Error()+" in `"+src+"`")
				continue
			}
			require.NoError(t, err, src)
			plain, err := native(want, 0)
			require.NoError(t, err)
			assert.Equal(t, plain, got, src)
		}
	})
}

func TestPricesNameFunctionsOfTheLibrary(t *testing.T) {
	t.Parallel()
	env, err := environment()
	require.NoError(t, err)
	declared := env.Functions()
	for name := range prepaid {
		assert.Contains(t, declared, name)
	}
	for name := range bounded {
		assert.Contains(t, declared, name)
	}
}

func TestWeightsDoNotOverflow(t *testing.T) {
	t.Parallel()
	_, err := steps(t, `params.big.split("", 9223372036854775807)`, text(10))
	require.NoError(t, err)
	_, err = steps(t, `params.big.replace("", params.big, 9223372036854775807)`, text(50_000))
	require.ErrorContains(t, err, "too much work")
	_, err = steps(t, fmt.Sprintf(`params.big.substring(%d)`, math.MaxInt64), text(10))
	require.ErrorContains(t, err, "index out of range")
}
