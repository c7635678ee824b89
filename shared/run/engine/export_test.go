package engine

// PlanWith computes a plan with sizes of its own, so that small flows have
// trees of joins.
func PlanWith(joinWidth, fanWidth, maxWidth, spare int, tasks []TaskDef) *Plan {
	return newPlan(layout{joinWidth: joinWidth, fanWidth: fanWidth, maxWidth: maxWidth, spare: spare}, tasks)
}
