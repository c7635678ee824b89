package engine

import "millrace/shared/run/flowspec"

// Defs is a flow's graph, as [NewPlan] takes it.
func Defs(flow *flowspec.Flow) []TaskDef {
	defs := make([]TaskDef, len(flow.Tasks))
	for i, t := range flow.Tasks {
		defs[i] = TaskDef{Deps: flow.Deps(i), Rule: Rule(t.TriggerRule), Mapped: t.MapOver != ""}
	}
	return defs
}
