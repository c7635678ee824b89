package manual

import (
	"reflect"
	"strings"

	"millrace/shared/run/engine"
	"millrace/shared/run/expr"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/tasktype"
)

var flowSpec = []table{
	{"fields of a flow_spec", fields[flowspec.Spec]},
	{"fields of a task", fields[flowspec.Task]},
	{"fields of retry_backoff", fields[flowspec.Backoff]},
	{"task types", func(string) (string, error) { return tasktype.Markdown(), nil }},
	{"trigger rules", triggerRules},
	{"statuses", listed("shared/run/engine/status.go", "Statuses of tasks", "status", "")},
	{"functions", functions},
}

// fields lists the fields of a type by its tags.
func fields[T any](string) (string, error) {
	g := newGrid("field", "type", "default", "allowed", "")
	of := reflect.TypeFor[T]()
	for i := range of.NumField() {
		f := of.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		text := f.Tag.Get("doc")
		if !strings.Contains(option, "omitempty") && f.Tag.Get("required") != "false" {
			text = strings.TrimPrefix("Required. "+text, " ")
		}
		g.row(code(name), typeOf(name, f.Type), code(f.Tag.Get("default")), allowed(f.Tag), strings.ReplaceAll(text, "<", `\<`))
	}
	return g.String(), nil
}

func typeOf(name string, t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[[]flowspec.Task]():
		return "list of tasks"
	case t == reflect.TypeFor[*flowspec.Task]():
		return "task"
	case t.Kind() == reflect.Pointer:
		return "object"
	case name == "result":
		return "any"
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return "object"
	case t.Kind() == reflect.Slice:
		return "list of strings"
	case t.Kind() == reflect.Int:
		return "integer"
	case t.Kind() == reflect.Float64:
		return "number"
	}
	return "string"
}

// allowed returns the limits in a tag.
func allowed(tag reflect.StructTag) string {
	if choice := tag.Get("enum"); choice != "" {
		return "`" + strings.ReplaceAll(choice, ",", "`, `") + "`"
	}
	if pattern := tag.Get("pattern"); pattern != "" {
		return code(pattern)
	}
	for _, bounds := range [][3]string{{"minimum", "maximum", ""}, {"minItems", "maxItems", " tasks"}} {
		if least, most := tag.Get(bounds[0]), tag.Get(bounds[1]); most != "" {
			return least + " to " + most + bounds[2]
		}
	}
	return ""
}

// triggerRules asks the engine what each rule decides.
func triggerRules(string) (string, error) {
	cases := []struct {
		head string
		sets engine.Sets
	}{
		{"all succeeded", engine.Sets{OK: 2}},
		{"some skipped, none failed", engine.Sets{OK: 1, Skipped: 1}},
		{"one failed or timed out", engine.Sets{OK: 1, Failed: 1}},
		{"some failed, some skipped", engine.Sets{Failed: 1, Skipped: 1}},
	}
	heads := []string{"rule"}
	for _, c := range cases {
		heads = append(heads, c.head)
	}
	g := newGrid(heads...)
	for _, rule := range []engine.Rule{engine.AllSuccess, engine.AllDone, engine.OneFailed, engine.NoneFailed} {
		row := []string{code(string(rule))}
		for _, c := range cases {
			status, _ := rule.Decide(c.sets)
			does := "it is " + string(status)
			if status == engine.Running {
				does = "**it runs**"
			}
			row = append(row, does)
		}
		g.row(row...)
	}
	return g.String(), nil
}

// functions lists macros and functions of expressions.
func functions(string) (string, error) {
	macros, err := expr.Macros()
	if err != nil {
		return "", err
	}
	list, err := expr.Functions()
	if err != nil {
		return "", err
	}
	text := "Macros: `" + strings.Join(macros, "`, `") + "`.\n\n"
	g := newGrid("function", "forms", "")
	for _, f := range list {
		g.row(code(f.Name), "`"+strings.Join(f.Forms, "`<br>`")+"`", f.Doc)
	}
	return text + g.String(), nil
}
