package attack

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// impatience is how long an attacker waits for a response before it disconnects
// and sends another request; the work of the first may go on.
func impatience() time.Duration { return size(300*time.Millisecond, 2*time.Second) }

// bomb registers a flow and, if it is accepted, runs it with parameters, from
// many concurrent clients.
func (a *attacker) bomb(schemas []object, parameters func(i int) object) {
	a.forever(8, func(i int) {
		ctx, cancel := context.WithTimeout(a.ctx, impatience())
		defer cancel()
		name := fmt.Sprint("bomb-", i)
		spec := object{"parameters": schemas[i%len(schemas)], "tasks": []object{transform("one", "1")}}
		if a.do(ctx, http.MethodPost, "/flows", object{"flow_name": name, "flow_version": "1", "flow_spec": spec}, nil) != nil {
			return
		}
		body := object{"flow_name": name, "flow_version": "1", "parameters": parameters(i % len(schemas))}
		for range 3 {
			ctx, cancel := context.WithTimeout(a.ctx, impatience())
			_ = a.do(ctx, http.MethodPost, "/runs", body, nil) // go on with the next
			cancel()
		}
	})
}

// schemaBombs are schemas whose check is much more expensive than their length
// suggests.
func schemaBombs(a *attacker) {
	branches := object{}
	for i := range 8 {
		branches[fmt.Sprint("p", i)] = object{"$ref": "#/$defs/a"}
	}
	enum := make([]object, 20_000)
	for i := range enum {
		enum[i] = object{"a": i}
	}
	pats := object{}
	for i := range 5000 {
		pats[fmt.Sprintf("^k%d", i)] = object{"type": "integer"}
	}
	schemas := []object{
		{"type": "object", "properties": object{"x": object{"$ref": "#/$defs/a"}}, "$defs": object{"a": object{"type": "object", "default": object{}, "properties": branches}}},
		{"type": "object", "properties": object{"x": object{"items": object{"enum": enum}}}},
		{"type": "object", "patternProperties": pats},
		{"type": "object", "properties": object{"x": object{"allOf": []object{{"$ref": "#/properties/y"}, {"$ref": "#/properties/y"}}}, "y": object{"anyOf": []object{{"$ref": "#/properties/x"}, {"$ref": "#/properties/x"}}}}},
		{"type": "object", "properties": object{"x": object{"type": "array", "uniqueItems": true}}},
	}
	deepest := object{"type": "object", "properties": object{"x": object{"anyOf": []object{{"$ref": "#/$defs/d0"}}}}, "$defs": object{"d40": object{"type": "integer"}}}
	for i := range 40 {
		next := object{"$ref": fmt.Sprint("#/$defs/d", i+1)}
		deepest["$defs"].(object)[fmt.Sprint("d", i)] = object{"anyOf": []object{next, next}}
	}
	schemas = append(schemas, deepest)
	list := make([]object, 15_000)
	for i := range list {
		list[i] = object{"b": i}
	}
	keys := object{}
	for i := range 8000 {
		keys[fmt.Sprintf("k%d", i)] = i
	}
	values := []object{{"x": object{}}, {"x": list}, keys, {"x": object{}, "y": object{}}, {"x": list}, {"x": "no"}}
	a.bomb(schemas, func(i int) object { return values[i] })
}

// patternBombs are large or slow regular expressions in schemas and
// expressions.
func patternBombs(a *attacker) {
	var alternatives strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&alternatives, "(.*)%d|", i)
	}
	long := strings.Repeat("x", 250_000)
	found := []string{
		alternatives.String() + "z", "^" + strings.Repeat("(x?){1000}", 300) + "$", "((x{0,100}){0,100}){0,100}y", "(" + strings.Repeat("x*", 400) + ")*y", "(?i)" + strings.Repeat("[a-zA-Zà-ÿ]{0,50}", 20) + "!",
	}
	var schemas []object
	for _, p := range found {
		schemas = append(schemas, object{"type": "object", "properties": object{"x": object{"type": "string", "pattern": p}}})
	}
	schemas = append(schemas, object{"type": "object", "patternProperties": object{found[2]: object{}}})
	a.bomb(schemas, func(int) object { return object{"x": long[:240_000]} })
}

// macroBombs are flows whose expressions take long to compile or evaluate.
func macroBombs(a *attacker) {
	nested := "1"
	for i := range 24 {
		nested = fmt.Sprintf("[1].map(v%d, %s)", i, nested)
	}
	var long []string
	for i := range 2000 {
		long = append(long, fmt.Sprintf("params.a%d", i))
	}
	wide := strings.Join(long, " + ")[:15_000]
	wide = wide[:strings.LastIndex(wide, " + ")]
	search := "lists.range(20).map(x, params.big.indexOf(params.big.substring(100000) + 'y'))"
	specs := []object{
		{"tasks": many(3000, func(name string) object { return transform(name, nested) })},
		{"tasks": many(150, func(name string) object { return transform(name, wide) })},
		{"tasks": []object{transform("search", search), transform("grow", "lists.range(100000).map(x, lists.range(100000))"), transform("text", "lists.range(1000).map(x, params.big + params.big)")}},
		{"tasks": many(500, func(name string) object {
			return object{"name": name, "type": "http", "config": object{"url": strings.Repeat("${{ "+nested+" }}", 10)}}
		})},
	}
	a.forever(4, func(i int) {
		ctx, cancel := context.WithTimeout(a.ctx, impatience())
		defer cancel()
		name := fmt.Sprint("macros-", i)
		if a.do(ctx, http.MethodPost, "/flows", object{"flow_name": name, "flow_version": "1", "flow_spec": specs[i%len(specs)]}, nil) == nil {
			body := object{"flow_name": name, "flow_version": "1", "parameters": object{"big": strings.Repeat("x", 200_000)}}
			_ = a.do(ctx, http.MethodPost, "/runs", body, nil) // go on with the next
		}
	})
}
