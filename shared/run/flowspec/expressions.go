package flowspec

import (
	"encoding/json"
	"slices"
	"strings"

	"millrace/shared/run/expr"
)

// expression checks a field that consists of one expression.
func (p *parser) expression(o *Object, task int, name string, fits func(*expr.Program) bool, misfit string) {
	src, ok := o.Text(name)
	if !ok {
		return
	}
	loc := at(o.loc, name)
	program, err := expr.CompileIn(p.budget, src)
	switch {
	case p.budget.Err() != nil:
		return // reported before
	case err != nil:
		p.faults.add("expression_error", loc, src, "%s", err)
		return
	case !fits(program):
		p.faults.add("expression_error", loc, src, "%s", misfit)
	}
	for _, name := range program.Tasks() {
		p.refs = append(p.refs, ref{task, loc, name})
	}
	if program.UsesItem() {
		p.item(o, loc)
	}
	if program.UsesFailed() {
		p.failed(o, loc)
	}
}

// failed reports the use of failed or failed_count where they are not defined.
func (p *parser) failed(o *Object, loc []any) {
	if !o.failed {
		p.faults.add("expression_error", loc, nil, "failed and failed_count exist only in the config of on_failure")
	}
}

// item reports item or index outside of a mapped task.
func (p *parser) item(o *Object, loc []any) {
	if !o.mapped {
		p.faults.add("expression_error", loc, nil, "item and index exist only in the config and inputs of a task with map_over")
	}
}

// config checks a task's config: its expressions, and then the rules of its
// type.
func (p *parser) config(o *Object, task int, kind Kind) {
	if !o.Has("config") {
		if kind.NeedsConfig {
			o.faults.add("missing", at(o.loc, "config"), nil, "a %s task needs a config", kind.Name)
		}
		return
	}
	c := o.Object("config")
	if c == nil {
		return
	}
	c.mapped, c.failed = o.Has("map_over"), o.failed
	rest := c.fields
	for _, name := range kind.Expressions {
		p.expression(c, task, name, func(*expr.Program) bool { return true }, "")
		if rest[name] != nil {
			rest = without(rest, name)
		}
	}
	p.template(c, task, "the config of a "+kind.Name+" task", kind.Secrets, rest)
	if kind.CheckConfig != nil {
		c.templated = true
		kind.CheckConfig(c)
	}
}

func without(m map[string]any, name string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		if k != name {
			out[k] = v
		}
	}
	return out
}

// template checks the expressions in fields of c. what is the name of c in
// errors.
func (p *parser) template(c *Object, task int, what string, secrets bool, fields map[string]any) {
	template, err := expr.NewTemplate(p.budget, fields)
	if p.budget.Err() != nil {
		return // reported before
	}
	if err != nil {
		for _, fault := range expr.TemplateErrors(err) {
			p.faults.add("expression_error", at(c.loc, fault.Path...), nil, "%s", fault.Err)
		}
		return
	}
	if names := template.Secrets(); len(names) > 0 && !secrets {
		p.faults.add("expression_error", c.loc, nil, "%s may not use secrets, this one reads secrets.%s", what, clip(names[0]))
	}
	for _, r := range template.Refs() {
		loc := at(c.loc, r.Path...)
		if r.Failed {
			p.failed(c, loc)
			continue
		}
		if r.Task == "" {
			p.item(c, loc)
			continue
		}
		p.refs = append(p.refs, ref{task, loc, r.Task})
	}
}

// graph builds the flow, rejects cycles, and checks that expressions refer only
// to tasks that have finished by then.
func (p *parser) graph(list []any, canonical json.RawMessage) *Flow {
	p.unknownRefs()
	if len(p.names) != len(list) {
		return nil // duplicate names
	}
	spec := Spec{Tasks: make([]Task, len(list))}
	for i, v := range list {
		m := v.(map[string]any)
		spec.Tasks[i].Name, _ = m["name"].(string)
		deps, _ := m["depends_on"].([]any)
		for _, d := range deps {
			name, _ := d.(string)
			spec.Tasks[i].DependsOn = append(spec.Tasks[i].DependsOn, name)
		}
	}
	flow, err := newFlow(spec, nil, p.kinds)
	if err != nil {
		p.faults.add("value_error", specLoc, nil, "%s", err)
		return nil
	}
	if len(flow.order) != len(list) {
		names := flow.findCycle()
		i, _ := flow.Index(names[0])
		p.faults.add("DependencyCycleError", at(specLoc, "tasks", i, "depends_on"), nil, "%s", cycleText(names))
		return nil
	}
	for _, r := range p.refs {
		if r.task < 0 || slices.Contains(flow.deps[r.task], p.names[r.name]) {
			continue
		}
		if p.names[r.name] == r.task {
			p.faults.add("expression_error", r.loc, nil, "the expression reads tasks.%s, the task it belongs to", r.name)
			continue
		}
		if !flow.IsAncestor(p.names[r.name], r.task) {
			p.faults.add("expression_error", r.loc, nil, "the expression reads tasks.%s, which need not have finished by then: add it to depends_on", r.name)
		}
	}
	if len(p.faults.list) > 0 {
		return nil
	}
	flow, err = Load(canonical, p.kinds)
	if err != nil {
		p.faults.add("value_error", specLoc, nil, "%s", strings.TrimPrefix(err.Error(), "flowspec: "))
		return nil
	}
	return flow
}

// unknownRefs reports, and removes, references to unknown tasks.
func (p *parser) unknownRefs() {
	p.refs = slices.DeleteFunc(p.refs, func(r ref) bool {
		if _, ok := p.names[r.name]; ok {
			return false
		}
		p.faults.add("expression_error", r.loc, nil, "the expression reads tasks.%s, but there is no such task", clip(r.name))
		return true
	})
}
