package engine

import "millrace/shared/run/flowspec"

// Defs returns a flow's graph in the form that [NewPlan] takes.
func Defs(flow *flowspec.Flow) []TaskDef {
	defs := make([]TaskDef, len(flow.Tasks))
	for i, t := range flow.Tasks {
		defs[i] = TaskDef{Deps: flow.Deps(i), Rule: Rule(t.TriggerRule), Mapped: t.MapOver != ""}
	}
	return defs
}
