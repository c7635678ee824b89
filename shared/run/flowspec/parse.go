package flowspec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"millrace/shared/platform/budget"
	"millrace/shared/platform/errs"
	"millrace/shared/run/expr"
)

var (
	taskName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`) // and at most maxTaskName
	function = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$`)
	rules    = []string{AllSuccess, AllDone, OneFailed, NoneFailed}
	specLoc  = errs.Body("flow_spec")
)

// Parse checks a flow_spec and returns its [Flow]. Every error is reported,
// with its place below ["body","flow_spec"], up to a thousand; the flow is nil
// if there is any. Compiling has a budget, and exceeding it is an error. Parse
// ends early with ctx.
func Parse(ctx context.Context, raw json.RawMessage, kinds Kinds) (*Flow, []errs.Detail) {
	return parseWithin(ctx, registering, raw, kinds)
}

func parseWithin(ctx context.Context, limits budget.Limits, raw json.RawMessage, kinds Kinds) (*Flow, []errs.Detail) {
	b, end := budget.New(ctx, limits)
	defer end()
	p := &parser{kinds: kinds, faults: &faults{}, budget: b, reached: -1}
	flow := p.parse(raw)
	if err := b.Err(); err != nil {
		flow = nil
		p.faults.list = append(p.faults.list, p.gaveUp(err))
	}
	if len(p.faults.list) > 0 {
		return nil, p.faults.list
	}
	return flow, nil
}

// registering is the budget of one flow_spec. It suffices for 10,000 tasks with
// two ordinary expressions each.
var registering = budget.Limits{Steps: 16_000_000, Bytes: 128 << 20}

// gaveUp returns the error for a flow_spec that was not checked completely.
func (p *parser) gaveUp(err error) errs.Detail {
	loc, msg := specLoc, "the check was given up"
	if used, ok := errors.AsType[*budget.Exceeded](err); ok {
		msg = fmt.Sprintf("compiling the expressions and the schema of the flow %s in all: make them fewer, shorter or less nested", used)
		if p.reached >= 0 {
			loc = at(specLoc, "tasks", p.reached)
		}
	}
	return errs.Detail{Type: "value_error", Loc: loc, Msg: msg}
}

type parser struct {
	budget  *budget.Budget
	reached int // the task at which the budget was used up; -1 before
	kinds   Kinds
	faults  *faults
	names   map[string]int // task indexes, the first for duplicate names
	refs    []ref
}

// ref is a reference of an expression to a task.
type ref struct {
	task int // index of the referring task, -1 for on_failure
	loc  []any
	name string
}

func (p *parser) parse(raw json.RawMessage) *Flow {
	tree, ok := p.decode(raw)
	if !ok {
		return nil
	}
	root := &Object{loc: specLoc, fields: tree, faults: p.faults}
	root.Only("parameters", "timeout_secs", "tasks", "on_failure", "result")
	root.Require("tasks")
	root.Int("timeout_secs", 1, MaxFlowTimeout)
	if root.Object("parameters") != nil {
		p.schema(root.Value("parameters"))
		if p.budget.Err() != nil {
			return nil
		}
	}
	list := root.List("tasks")
	switch {
	case len(list) > MaxTasks:
		root.Fault(nil, []any{"tasks"}, "a flow may have at most %d tasks, this one has %d", MaxTasks, len(list))
		return nil
	case root.Has("tasks") && list != nil && len(list) == 0:
		root.Fault(nil, []any{"tasks"}, "a flow needs at least one task")
	}
	p.index(list)
	complete := true
	for i, v := range list {
		complete = p.task(i, v) && complete
		if p.budget.Err() != nil {
			p.reached = i
			return nil
		}
	}
	if o := root.Object("on_failure"); o != nil {
		p.onFailure(o)
	}
	p.result(root)
	canonical, err := expr.Encode(tree)
	if err != nil {
		p.faults.add("value_error", specLoc, nil, "flow_spec cannot be stored: %s", err)
		return nil
	}
	if len(canonical) > MaxBytes {
		p.faults.add("value_error", specLoc, nil, "flow_spec may have at most %d bytes, this one has %d", MaxBytes, len(canonical))
		return nil
	}
	if !complete || len(list) == 0 {
		p.unknownRefs()
		return nil
	}
	return p.graph(list, canonical)
}

// decode decodes the document and rejects what JSON leaves undefined: duplicate
// fields, invalid text, trailing data.
func (p *parser) decode(raw json.RawMessage) (map[string]any, bool) {
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	_, err := dec.ReadValue()
	if err == nil {
		if _, err = dec.ReadToken(); errors.Is(err, io.EOF) {
			err = nil
		} else if err == nil {
			err = errors.New("something follows the document")
		}
	}
	if err != nil {
		loc, msg := specLoc, "flow_spec is not valid JSON"
		if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
			loc = at(specLoc, pointer(s.JSONPointer)...)
			msg = s.Err.Error()
			if errors.Is(err, jsontext.ErrDuplicateName) {
				msg = "this field is given twice"
			}
		}
		p.faults.add("json_invalid", loc, nil, "%s", msg)
		return nil, false
	}
	v, err := expr.Decode(raw)
	if err != nil {
		p.faults.add("json_invalid", specLoc, nil, "%s", err)
		return nil, false
	}
	tree, ok := v.(map[string]any)
	if !ok {
		p.faults.add("dict_type", specLoc, v, "flow_spec must be an object")
	}
	return tree, ok
}

// pointer splits a JSON pointer; a numeric token becomes an index.
func pointer(ptr jsontext.Pointer) []any {
	var out []any
	for token := range ptr.Tokens() {
		if i, err := strconv.Atoi(token); err == nil {
			out = append(out, i)
		} else {
			out = append(out, token)
		}
	}
	return out
}

func (p *parser) index(list []any) {
	p.names = make(map[string]int, len(list))
	for i, v := range list {
		m, _ := v.(map[string]any)
		name, ok := m["name"].(string)
		if !ok {
			continue
		}
		if first, twice := p.names[name]; twice {
			p.faults.add("value_error", at(specLoc, "tasks", i, "name"), name, "task %d has the name %q too; names must be unique", first, clip(name))
			continue
		}
		p.names[name] = i
	}
}

// task checks one element of tasks. It returns false if the graph cannot be
// built with it.
func (p *parser) task(i int, v any) bool {
	loc := at(specLoc, "tasks", i)
	m, ok := v.(map[string]any)
	if !ok {
		p.faults.add("dict_type", loc, v, "a task must be an object")
		return false
	}
	o := &Object{loc: loc, fields: m, faults: p.faults}
	o.Only("name", "type", "entrypoint", "description", "depends_on", "retries", "retry_backoff",
		"timeout_secs", "trigger_rule", "condition", "map_over", "config", "inputs", "tier")
	p.common(o, i)
	if rule, ok := o.Text("trigger_rule"); ok && !slices.Contains(rules, rule) {
		o.Fault(rule, []any{"trigger_rule"}, "trigger_rule must be one of %s", strings.Join(rules, ", "))
	}
	p.expression(o, i, "condition", (*expr.Program).MayBeBool, "condition must be true or false")
	p.expression(o, i, "map_over", (*expr.Program).MayBeList, "map_over must be a list")
	return p.dependsOn(o) && o.Has("name")
}

// onFailure checks the task that runs after a failed run. It is not part of the
// graph, so it must not have fields about its place.
func (p *parser) onFailure(o *Object) {
	o.failed = true
	for _, name := range []string{"depends_on", "map_over", "trigger_rule", "condition"} {
		if _, has := o.fields[name]; has {
			o.faults.add("extra_forbidden", at(o.loc, name), o.fields[name], "on_failure runs once, after a failed run: it has no %s", name)
		}
	}
	o.Only("name", "type", "entrypoint", "description", "retries", "retry_backoff", "timeout_secs", "config", "inputs", "tier",
		"depends_on", "map_over", "trigger_rule", "condition")
	if name, ok := o.fields["name"].(string); ok {
		if first, twice := p.names[name]; twice {
			o.Fault(name, []any{"name"}, "task %d has the name %q too; names must be unique", first, clip(name))
		}
	}
	p.common(o, -1)
}

// common checks the fields that all tasks have.
func (p *parser) common(o *Object, i int) {
	o.Require("name", "type")
	if name, ok := o.Text("name"); ok && (len(name) > maxTaskName || !taskName.MatchString(name)) {
		o.Fault(name, []any{"name"}, "a name has up to 64 letters, digits, _ and -, the first a letter")
	}
	o.Text("description")
	p.tier(o)
	o.Int("retries", 0, MaxRetries)
	if b := o.Object("retry_backoff"); b != nil {
		b.Only("delay_secs", "factor", "max_secs")
		b.Number("delay_secs", 0, maxBackoff)
		b.Number("factor", 1, 100)
		b.Number("max_secs", 0, maxBackoff)
	}
	longest := MaxFlowTimeout
	entrypoint, named := o.Text("entrypoint")
	if name, ok := o.Text("type"); ok {
		kind, known := p.kinds[name]
		if !known {
			o.Fault(name, []any{"type"}, "there is no task type %q; known are %s", clip(name), strings.Join(p.kinds.Names(), ", "))
		} else {
			longest = kind.MaxTimeoutSecs
			p.entrypoint(o, kind, entrypoint, named)
			p.config(o, i, kind)
			p.inputs(o, i, kind)
		}
	}
	o.Int("timeout_secs", 1, longest)
}

func (p *parser) entrypoint(o *Object, kind Kind, entrypoint string, named bool) {
	switch {
	case kind.NeedsEntrypoint && !named && !o.Has("entrypoint"):
		o.faults.add("missing", at(o.loc, "entrypoint"), nil, "a %s task needs an entrypoint, e.g. flow:extract", kind.Name)
	case !kind.NeedsEntrypoint && named:
		o.Fault(entrypoint, []any{"entrypoint"}, "a %s task has no entrypoint", kind.Name)
	case named && !function.MatchString(entrypoint):
		o.Fault(entrypoint, []any{"entrypoint"}, "an entrypoint is module:function, e.g. flow:extract or pkg.flow:extract")
	}
}

// dependsOn checks the names. It returns false if they do not fit the graph.
func (p *parser) dependsOn(o *Object) bool {
	sound := true
	seen := map[string]bool{}
	list := o.List("depends_on")
	for k, v := range list {
		fault := func(format string, args ...any) {
			o.Fault(v, []any{"depends_on", k}, format, args...)
			sound = false
		}
		name, ok := v.(string)
		_, known := p.names[name]
		switch {
		case !ok:
			o.faults.add("string_type", at(o.loc, "depends_on", k), v, "a dependency is the name of a task")
			sound = false
		case name == o.fields["name"]:
			fault("a task cannot depend on itself")
		case !known:
			fault("there is no task %q", clip(name))
		case seen[name]:
			fault("%q is listed twice", name)
		}
		seen[name] = true
	}
	return sound && (list != nil || !o.Has("depends_on"))
}
