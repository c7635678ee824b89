package expr

import (
	"encoding/json"
	"strings"
	"testing"

	"millrace/shared/platform/budget"
	"millrace/shared/platform/budget/budgettest"
)

// Compiling and evaluating an expression is charged, for any input.
func FuzzCost(f *testing.F) {
	long := strings.Repeat("ab", 2000)
	for _, src := range []string{
		`params.s.indexOf(params.s.substring(10) + "y")`,
		`params.l.map(x, params.s.lastIndexOf(string(x)))`,
		`params.s.split("a").map(x, x + params.s).join(params.s)`,
		`params.l.all(x, params.s.matches("^(a|b){0,50}$" + string(x)))`,
		`params.l.map(x, params.l.map(y, [x, y, params.s])).flatten().sort()`,
		`params.l.sortBy(x, -x).map(x, "%s %.3f".format([params.l, 1.5]))`,
		`cel.bind(m, {"a": params.l, "b": params.s}, [m, m] == [m, m] && m in [m])`,
		`params.l.map(x, params.s.replace("a", params.s).reverse().upperAscii())`,
		`json.encode([params, params]).size() + math.greatest(params.l)`,
		`[[[[[[[[[[params.l]]]]]]]]]].map(x, x).filter(x, true)`,
		`params.l.map(x, timestamp("2026-01-01T00:00:00Z").getHours("Asia/Tokyo") + x)`,
		`sets.contains(params.l, params.l) && params.l.distinct() == params.l`,
		`optional.of(params.l).optMap(x, [x]).orValue([])`,
	} {
		f.Add(src, []byte(`{"l":[3,1,2],"s":"`+long+`"}`))
	}
	f.Add(`params.s.indexOf(params.s.substring(30000) + "y")`, []byte(`{"s":"`+strings.Repeat("a", 60_000)+`"}`))
	f.Fuzz(func(t *testing.T, src string, params []byte) {
		if len(params) > 64<<10 {
			return
		}
		v, err := Decode(json.RawMessage(params))
		if err != nil {
			return
		}
		object, _ := v.(map[string]any)
		b, end := budget.New(t.Context(), budget.Limits{Steps: maxSteps, Bytes: maxBytes})
		var p *Program
		budgettest.Covered(t, b, func() { p, err = CompileIn(b, src) })
		end()
		if err != nil {
			return
		}
		b, end = budget.New(t.Context(), budget.Limits{Steps: maxSteps / 100, Bytes: maxBytes / 64})
		defer end()
		budgettest.Covered(t, b, func() { _, _ = p.eval(t.Context(), b, Scope{Params: object, Item: &Item{}}, nil) })
	})
}
