package engine

// PlanWith computes a plan of sizes that are no version's, so that small flows
// have trees of joins.
func PlanWith(joinWidth, fanWidth, maxWidth, spare int, tasks []TaskDef) *Plan {
	return newPlan(layout{joinWidth: joinWidth, fanWidth: fanWidth, maxWidth: maxWidth, spare: spare}, tasks)
}
