package attack

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"millrace/localstack/client"
)

// fuzzExpressions registers flows with random expressions and templates, and
// runs those that are accepted. A run may have any result, but must end soon.
func fuzzExpressions(a *attacker) {
	a.each(4, size(300, 3000), func(rng *rand.Rand, i int) {
		ctx, cancel := context.WithTimeout(a.ctx, answerPatience)
		defer cancel()
		name, spec := fmt.Sprint("random-", i%50), flowSpec(rng)
		began := time.Now()
		body := object{"flow_name": name, "flow_version": fmt.Sprint(i), "flow_spec": spec}
		err := a.do(ctx, http.MethodPost, "/flows", body, nil)
		if err == nil && i%2 == 0 {
			parameters := object{"s": strings.Repeat("ab1 ", rng.IntN(5000)), "n": rng.IntN(100) - 50, "l": []any{1, "a", nil, object{"b": 1}}, "m": object{"k": []int{1, 2}}}
			_, err = a.api.Start(ctx, client.RunRequest{FlowName: name, FlowVersion: fmt.Sprint(i), Parameters: parameters, Execute: true})
			a.counted("POST /runs", err)
		}
		if took := time.Since(began); took > answerPatience/2 {
			a.problem("%s of %.2000s", took.Round(time.Millisecond), marshal(spec))
		}
	})
}

// flowSpec draws a flow of one to three tasks.
func flowSpec(rng *rand.Rand) object {
	var tasks []object
	var before []string
	for i := range 1 + rng.IntN(3) {
		task := transform(fmt.Sprint("t", i), expression(rng, 4), before...)
		switch rng.IntN(6) {
		case 0:
			task["condition"] = expression(rng, 3)
		case 1:
			task["map_over"] = expression(rng, 3)
		case 2:
			task["retries"], task["retry_backoff"] = 1, object{"delay_secs": 0}
		case 3:
			task["type"], task["config"] = "http", object{"url": "http://127.0.0.1:1/" + template(rng), "method": template(rng)}
			if rng.IntN(4) > 0 {
				task["config"] = object{"url": template(rng), "headers": object{"X-A": template(rng)}, "json": template(rng)}
			}
		case 4:
			task["type"], task["config"] = "wait", object{"seconds": "${{ 0 * " + expression(rng, 2) + " }}"}
		}
		tasks, before = append(tasks, task), append(before, task["name"].(string))
	}
	spec := object{"tasks": tasks, "timeout_secs": 2}
	if rng.IntN(10) == 0 {
		schemas := []object{
			{"type": "object", "properties": object{"s": object{"type": "string", "pattern": text(pick(rng, patterns))}}},
			{"type": "object", "properties": object{"s": object{"$ref": "#/properties/s"}}}, {"$ref": "#"}, {"$ref": "https://example.com/x.json"},
			{"properties": object{"n": object{"default": expression(rng, 1), "type": "integer"}}}, {"allOf": []object{{"$ref": "#/$defs/a"}}, "$defs": object{"a": object{"not": object{}}}},
			{"$dynamicRef": "#a", "$dynamicAnchor": "a"}, {"unevaluatedProperties": false, "propertyNames": object{"maxLength": -1}},
		}
		spec["parameters"] = pick(rng, schemas)
	}
	return spec
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// template draws a text with expressions in it, well-formed or not.
func template(rng *rand.Rand) string {
	var b strings.Builder
	for range 1 + rng.IntN(3) {
		switch rng.IntN(7) {
		case 0:
			b.WriteString(pick(rng, []string{"", "text ", "$", "{{", "}}", "${{", "${{ }}", "$${{ x }}", "${{ '}}' }}", "${{ {'a': {}}}}", "\x00", "ÿ"}))
		case 1:
			// A missing secret is retried for seconds.
			b.WriteString("${{ secrets." + pick(rng, size([]string{"", "1"}, []string{"", "x", "a.b", "x + 'y'"})) + " }}")
		default:
			b.WriteString("${{ " + expression(rng, 3) + " }}")
		}
	}
	return b.String()
}

var patterns = []string{
	`^[0-9]{4}-[0-9]{2}$`, `(a+)+$`, `b`, `[^ab]{3,5}`, `(?s)(.)(.*)`, `^$`, `(`, `(?P<n>x){1000}`, `((x{100}){100}){100}`, `[[:alpha:]]*`, `\p{Greek}`, `(?i)` + strings.Repeat("a|", 50) + "b", `\C`, `(?:)*`, `a{2,1}`, `.*.*.*.*=.*`, "\xff",
}

// atoms are the leaves of expressions; a flow with oddAtoms is mostly rejected.
var (
	atoms = []string{
		"0", "1", "-1", "9223372036854775807", "-9223372036854775808", "18446744073709551615u", "1.5", "1e308", "0.0/0.0", "true", "false", "null", "''", "'a'", "'\\U0001F600'", "r'\\d'",
		"b'x'", "b'\\xff'", "[]", "{}", "[1, 'a', null]", "{'a': 1, 'b': [1]}", "{1: 2}", "{true: 1, 'x': 2}", "params", "params.s", "params.n", "params.l", "params.m", "params.missing",
		"run.run_id", "run", "vars", "vars.X", "timestamp('2026-01-02T03:04:05Z')", "duration('1h')", "type(1)", "lists.range(10)", "'%s %d'", "'a,b,c'", "[[1], [2, [3]]]", "base64.encode(b'x')",
	}
	oddAtoms = []string{
		"{b'a': 1}", "{null: 1}", "{1.5: 1}", "tasks", "tasks.t0.output", "tasks.t0.status", "tasks.t1.output", "tasks.none.output", "item", "index", "failed", "google.protobuf.Any{}", "x", "optional.none()", "''.x",
	}
)

// expression draws an expression. The types of most of its parts are unknown
// before it is evaluated; otherwise nearly all would be rejected.
func expression(rng *rand.Rand, depth int) string {
	if rng.IntN(60) == 0 {
		return pick(rng, oddAtoms)
	}
	if depth == 0 || rng.IntN(6) == 0 {
		return "dyn(" + pick(rng, atoms) + ")"
	}
	e := func() string { return expression(rng, depth-1) }
	var out string
	switch rng.IntN(9) {
	case 0:
		out = "(" + e() + pick(rng, []string{" + ", " - ", " * ", " / ", " % ", " == ", " != ", " < ", " >= ", " in ", " && ", " || "}) + e() + ")"
	case 1:
		out = "(" + e() + " ? " + e() + " : " + e() + ")"
	case 2:
		out = pick(rng, []string{"!", "-", "size", "string", "int", "uint", "double", "bool", "bytes", "dyn", "type", "duration", "timestamp", "base64.encode", "base64.decode",
			"math.abs", "math.ceil", "math.sign", "math.sqrt", "math.bitNot", "strings.quote", "lists.range", "math.greatest", "math.least"}) + "(" + e() + ")"
	case 3:
		out = e() + "." + pick(rng, []string{"size", "lowerAscii", "upperAscii", "trim", "reverse", "sort", "distinct", "first", "last", "flatten", "join", "getFullYear", "getHours"}) + "()"
	case 4:
		out = e() + "." + pick(rng, []string{"contains", "startsWith", "endsWith", "split", "join", "charAt", "indexOf", "lastIndexOf", "substring", "format", "flatten", "getDayOfWeek"}) + "(" + e() + ")"
	case 5:
		out = e() + ".matches(" + pick(rng, []string{"r'" + pick(rng, patterns) + "'", e()}) + ")"
	case 6:
		out = e() + "." + pick(rng, []string{"all", "exists", "exists_one", "map", "filter", "sortBy"}) + "(x, " + pick(rng, []string{e(), "x == " + e(), "dyn(x) < " + e()}) + ")"
	case 7:
		out = pick(rng, []string{"math.bitShiftLeft", "math.bitAnd", "sets.contains", "sets.intersects", "sets.equivalent", "math.greatest", "lists.range"}) + "(" + e() + ", " + e() + ")"
		if rng.IntN(3) == 0 {
			out = "cel.bind(x, " + e() + ", " + e() + ")"
		}
	default:
		out = e() + "[" + e() + "]"
	}
	if rng.IntN(150) == 0 {
		at := rng.IntN(len(out) + 1)
		return out[:at] + pick(rng, []string{"(", ")", "'", "\\", "}", "\x00", "//", "?", "..", "`"}) + out[at:]
	}
	return "dyn(" + out + ")"
}
